from itertools import product
from types import SimpleNamespace

import pytest
from helpers.experiments.tiny_compare import STEP_SECONDS, comparisons_in, pretend, rows

from mmssprl.config.shipped import shipped
from mmssprl.experiments.compare.images import read_images
from mmssprl.experiments.compare.report import FACTORS, choose
from mmssprl.experiments.compare.rows import SSPRL_ROW, choose_rows, row_of
from mmssprl.experiments.compare.setting import run_options
from mmssprl.experiments.execute import execute_runs
from mmssprl.pretraining import methods
from mmssprl.pretraining.methods import BY_KEY


@pytest.fixture
def compare(tmp_path):
    return comparisons_in(tmp_path)


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    """Two calls with one work dir, the second with another method: their runs and tables."""
    compare = comparisons_in(tmp_path_factory.mktemp("calls"))
    asked = {"seeds": 2, "methods": ["random", "swav", "swav-small"]}
    found = []
    with pytest.MonkeyPatch.context() as patch:
        folders = pretend(patch, lambda run: 0.2)
        for changes in (
            {**asked, "equal": ("epochs", "time", "flops")},
            {"methods": ["supervised"], "equal": ("epochs", "time")},
        ):
            del folders[:]
            comparison = compare(**changes)
            timed = {run.inputs["run_steps"] for run in comparison.pace_runs()}
            comparison.run()
            table = (compare.work_dir / "table.md").read_text()
            results = rows(compare.work_dir / "results.csv")
            about = {"folders": list(folders), "timed": timed, "table": table, "results": results}
            found.append(SimpleNamespace(**about))
    return found


def test_a_pace_knows_the_steps_of_all_seeds(calls):
    assert calls[0].timed == {2 * 6 * 3}


def test_lengths_follow_from_the_paces(calls):
    """6 epochs of 0.4 s and 3 GFLOP a step, in 0.1 or 0.2 s and 1 GFLOP; SS-PRL's run is of all."""
    names = ["random-0ep", "swav-6ep", "swav-small-6ep", "ssprl-6ep"]
    names += ["swav-24ep", "swav-small-12ep", "swav-18ep", "swav-small-18ep"]
    ends = ("-lr1-seed0", "-lr1-seed1")  # seeds come one after the other
    expected = [f"runs/{name}{end}" for end, name in product(ends, names)]
    paces = [f"paces/{key}" for key in ("swav", "swav-small", "ssprl")]
    assert calls[0].folders == paces + expected


def test_a_row_of_smaller_steps_has_as_much_time(compare, monkeypatch):
    """6 epochs of 3 steps of 0.4 s are as many of 6 steps of 0.2 s."""
    key = "mocov2-train_dataloader.batch_size=4"
    monkeypatch.setitem(STEP_SECONDS, key, 0.2)
    pretend(monkeypatch, lambda run: 0.2)
    found = compare(equal=("time",), methods=["mocov2:train_dataloader.batch_size=4"])
    execute_runs(found.pace_runs(), found.jobs, lambda line: None)
    run = found.final_runs()["time"][-1]
    assert run.folder.name == f"{key}-6ep-lr1-seed0"
    assert run.inputs["options"]["model.bn_groups"] == 2  # of 2 images


def test_equal_flops_have_a_table(calls):
    lengths = {row["epochs"] for row in calls[0].results if row["budget"] == "flops"}
    assert lengths == {"0", "18", "6"}
    assert "### Equal FLOPs" in calls[0].table


def test_a_later_method_is_measured_beside_ssprl(calls):
    runs = [f"runs/supervised-{epochs}ep-lr1-seed0" for epochs in (6, 1)]
    assert calls[1].folders == ["paces/supervised", *runs]
    assert {row["method"] for row in calls[1].results} == {"supervised", "ssprl"}


@pytest.mark.parametrize("change", ["images", "recipe_digest", "__version__"])
def test_runs_on_other_images_or_of_other_code_are_done_again(change, compare, monkeypatch):
    folders = pretend(monkeypatch, lambda run: 0.2)
    runs = ["runs/swav-24ep-lr1-seed0", "runs/ssprl-6ep-lr1-seed0"]

    def call(*words):
        del folders[:]
        compare(equal=("time",), methods=words).run()
        return [row["method"] for row in rows(compare.work_dir / "results.csv")]

    assert call("swav", "swav-small") == ["swav", "swav-small", "ssprl"]
    trained = compare.work_dir / runs[0] / "trained.json"
    trained.write_text("{}")
    if change == "images":
        annotations = compare.data / "annotations" / "instances_train2014.json"
        annotations.write_text(annotations.read_text().replace('"0.jpg"', '"renamed.jpg"'))
        (compare.data / "train2014" / "0.jpg").rename(compare.data / "train2014" / "renamed.jpg")
    else:
        new = {"recipe_digest": lambda *_: "new", "__version__": "a later one"}[change]
        monkeypatch.setattr(f"mmssprl.experiments.compare.start.{change}", new)
    assert call("swav") == ["swav", "ssprl"]
    assert folders == ["paces/swav", "paces/ssprl", *runs]
    assert not trained.exists()  # it is of the former ones
    call("swav")
    assert folders == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"methods": ["swaw"]}, "got 'swaw'; did you mean swav?"),
        ({"batch_size": 25}, "needs 25 images, but .* has 24 to train on"),
        ({"batch_size": 20, "tune": True}, "needs 20 images, but .* has 19 to train on"),
        ({"reference": "all"}, "--reference must be one method, but got all"),
    ],
)
def test_bad_options_are_refused_before_any_training(changes, message, compare):
    with pytest.raises(ValueError, match=message):
        compare(**changes)


@pytest.fixture
def own(tmp_path):
    """A config of the user's: SS-PRL's of this size with other prototypes."""
    path = tmp_path / "own.py"
    base = shipped("configs/ssprl/ssprl_resnet18_scenes.py")
    path.write_text(f'_base_ = "{base}"\nmodel = dict(head=dict(num_prototypes=7))\n')
    return path


def test_a_config_of_the_user_s_is_a_row_that_follows_its_changes(compare, monkeypatch, own):
    monkeypatch.setitem(STEP_SECONDS, "own", 0.2)
    folders = pretend(monkeypatch, lambda run: 0.3 if run["method"] == "own" else 0.2)
    words = [str(own), "random", str(own)]
    compare(methods=words).run()
    runs = [f"runs/{name}-lr1-seed0" for name in ("random-0ep", "ssprl-6ep", "own-6ep")]
    assert folders == ["paces/ssprl", "paces/own", *runs, "runs/own-12ep-lr1-seed0"]
    table = rows(compare.work_dir / "results.csv")
    assert [row["method"] for row in table] == ["random", "ssprl", "own"] * 2
    assert [row["lr"] for row in table[:3]] == ["", "0.004", "0.004"]
    against = compare(methods=words, reference=str(own)).report().text()
    assert "against own" in against
    own.write_text(own.read_text().replace("num_prototypes=7", "num_prototypes=8"))
    del folders[:]
    methods._read.cache_clear()
    compare(methods=words).run()
    assert folders == ["paces/own", "runs/own-6ep-lr1-seed0", "runs/own-12ep-lr1-seed0"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("ssprl.py", "", "names of rows must differ, but .*ssprl.py would be a second ssprl"),
        ("x.py", "model = dict(type='ImageClassifier')", "pre-training model .*x.py has not"),
        ("x.py", "_base_ = 'own.py'\nmodel = dict(backbone=dict(depth=34))", "x has depth = 34 in"),
        ("x.py", "_base_ = 'own.py'\nmodel = dict(head=dict(epsilon=-1.0))", "epsilon"),
    ],
)
def test_a_config_that_is_no_row_is_refused(name, text, message, compare, own):
    path = own.parent / name
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        compare(methods=[str(own), str(path)])
    with pytest.raises(FileNotFoundError, match="there is no .*y.py"):
        compare(methods=[str(own.parent / "y.py")])


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A comparison with tuned rates, where the best one depends on method and length."""

    def score(run):
        if run["split"] == "test":
            return 0.5
        best = 1 / 3 if run["epochs"] == 24 else {"swav": 3.0, "ssprl": 1.0}[run["method"]]
        far = abs(run["lr_factor"] - best)
        return 0.3 - 0.01 * far + {1000: 0.001}.get(run["seed"], 0.0)

    compare = comparisons_in(tmp_path_factory.mktemp("tuned"))
    with pytest.MonkeyPatch.context() as patch:
        folders = pretend(patch, score)
        comparison = compare(tune=True)
        comparison.run()
        choices = comparison.report().choices
    return SimpleNamespace(compare=compare, folders=folders, choices=choices)


def test_rates_are_tuned_at_each_length(tuned):
    assert tuned.choices == {("swav", 6): 3.0, ("swav", 24): 1 / 3, ("ssprl", 6): 1.0}


def test_final_runs_take_the_rates_of_their_lengths(tuned):
    lengths = ("swav-6ep", "swav-24ep", "ssprl-6ep")
    tuning = []
    for length, seed, factor in product(lengths, (1000, 1001, 1002), ("0.333", "1", "3")):
        tuning.append(f"tuning/{length}-lr{factor}-seed{seed}")
    names = ("random-0ep-lr1", "swav-6ep-lr3", "ssprl-6ep-lr1", "swav-24ep-lr0.333")
    runs = [f"runs/{name}-seed0" for name in names]
    assert tuned.folders == ["paces/swav", "paces/ssprl", *tuning, *runs]


def test_every_tuned_rate_is_published(tuned):
    """Those that were not chosen, too."""
    table = rows(tuned.compare.work_dir / "tuning.csv")
    assert len(table) == 27
    chosen = {(r["method"], float(r["lr_factor"])) for r in table if r["chosen"] == "True"}
    assert chosen == {("swav", 3.0), ("swav", 1 / 3), ("ssprl", 1.0)}
    assert {float(r["lr"]) for r in table} == {0.004 / 3, 0.004, 0.012}


def test_tuned_runs_are_not_mixed_with_others(tuned):
    with pytest.raises(ValueError, match="the same tune"):
        tuned.compare()


@pytest.mark.parametrize(
    ("means", "best"),
    # s = 0.01 on both sides: sqrt(2 x 0.0001 / 3) = 0.00816.
    [((0.3, 0.4, 0.41), 3.0), ((0.3, 0.4, 0.408), 1.0), ((0.42, 0.4, 0.41), 1 / 3)]
    + [((0.4, 0.4, 0.4), 1.0)],
)
def test_the_best_is_taken_unless_its_lead_is_below_its_standard_error(means, best):
    rates = {f: [m - 0.01, m, m + 0.01] for f, m in zip(FACTORS, means, strict=True)}
    assert choose(rates) == best
    del rates[3.0][0]  # nothing is chosen before all seeds of all factors are there
    assert choose(rates) is None


def test_all_methods_get_the_same_options(compare):
    found = compare()
    values = {
        "images": found.images_of(SSPRL_ROW, "test"),
        "epochs": 5,
        "seed": 3,
        "lr_factor": 3.0,
    }

    def options(key):
        return run_options(found.setting, row_of(BY_KEY[key]), **values)

    expected = options("ssprl")
    assert expected["randomness.seed"] == 3
    assert expected["optim_wrapper.optimizer.lr"] == pytest.approx(0.012)
    assert options("swav") == options("swav-small") == expected
    supervised = options("supervised")
    assert supervised.pop("train_dataloader.dataset")["type"] == "MultiLabelTargetDataset"
    assert supervised.pop("model.head.num_classes") == 2
    left_out = ("train_dataloader.dataset.", "model.head.")
    assert supervised == {k: v for k, v in expected.items() if not k.startswith(left_out)}


def test_all_are_the_methods_without_a_teacher():
    assert len({method.title for method in BY_KEY.values()}) == len(BY_KEY)
    found = [row.key for row in choose_rows(["all", "swav"], "ssprl")[0]]
    assert found == [key for key in BY_KEY if key != "distill"]


def test_tuning_holds_out_a_fifth_of_the_training_images(compare):
    final, tuning = (read_images(compare.data, split) for split in ("test", "held-out"))
    assert (len(final.train.paths), len(final.test.paths)) == (24, 12)
    # A fifth of 24, rounded.
    assert (len(tuning.train.paths), len(tuning.test.paths)) == (19, 5)
    assert sorted(tuning.train.paths + tuning.test.paths) == sorted(final.train.paths)
    for split in (tuning.train, tuning.test):
        for path, labels in zip(split.paths, split.labels, strict=True):
            assert labels.equal(final.train.labels[final.train.paths.index(path)])
