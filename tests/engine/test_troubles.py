import json
from pathlib import Path

import pytest

from mmssprl.engine.troubles import AT_CHANCE, LEAST_STEPS, TROUBLES, diagnose, find_troubles

LOGS = {log["name"]: log for log in json.loads(Path(__file__).with_name("logs.json").read_text())}
"""Made by tools/dev/monitoring of version 0.2-wide, except the log of SHORT_EPOCHS."""
SHORT_EPOCHS = "healthy_ssprl_scenes_256x16_batch16_seed0"
"""A run of configs/ssprl/ssprl_resnet18_scenes.py on 256 scenes of 96 px, in batches of 16 for 16
epochs, with lr 5e-4 and a line every 4 steps."""


def recorded(name):
    scalars = LOGS[name]["scalars"]
    records = []
    for row in zip(*scalars.values(), strict=True):
        line = zip(scalars, row, strict=True)
        records.append({key: value for key, value in line if value is not None})
    return records


HEALTHY = recorded("healthy_ssprl_scenes_256x12_seed0")[-2]


def run(*changes, epochs=10, of_epochs=10, epoch_steps=100):
    """Return four lines per epoch, with all ``changes`` that have started by then."""
    records = []
    for line in range(1, 4 * epochs + 1):
        done = line / 4
        record = {**HEALTHY, "epochs_done": done, "progress": done / of_epochs}
        record["step"] = int(done * epoch_steps)
        for start, values in changes:
            if done >= start:
                record |= values
        records.append(record)
    return records


SIGNS = {
    "lr_zero": ({"lr": 0.0}, 1),
    "collapsed": ({"embedding_spread": 0.1, "effective_rank": 1.5}, 2),
    "identical": ({"alignment": 0.51}, 2),
    "epsilon": ({"code_perplexity_s1": 0.99}, 2),
    "prototypes": ({"prototypes_in_use_s1": 0.1}, 2),
    "at_chance": ({"relative_cross_s1": 1.0}, 3),
    "worse_than_start": ({"gain_over_start": -3.0, "gain_interval": 2.0}, 1),
    "loader": ({"data_time": 0.8}, 1),
}


@pytest.mark.parametrize("key", TROUBLES)
def test_a_trouble_is_named_once_its_sign_has_stayed(key):
    values, epochs = SIGNS[key]
    lasting = "1 epoch" if epochs == 1 else f"{epochs} epochs"
    records = run((2, values))
    first = next(n for n in range(len(records)) if find_troubles(records[:n] or records[:1]))
    ((found, line),) = find_troubles(records[:first]).items()
    assert found == key
    assert records[first - 1]["epochs_done"] == 2 + epochs
    assert "\n" not in line
    assert lasting in line.partition(": ")[0]
    assert line.endswith("; see docs/troubleshooting.md")


def test_the_first_cause_explains_a_loss_at_chance():
    signs = {}
    for values, _ in SIGNS.values():
        signs |= values
    others = ["worse_than_start", "loader"]
    assert [*find_troubles(run((0, signs)))] == ["lr_zero", *others]
    del signs["lr"]
    assert [*find_troubles(run((0, signs)))] == ["collapsed", *others]


def test_a_loss_may_stay_at_chance_for_a_tenth_of_the_training():
    at_chance = (0, {"relative_pyramid_s0": 1.0})
    assert not find_troubles(run(at_chance, of_epochs=200, epochs=19))
    records = run(at_chance, of_epochs=200, epochs=21)
    assert [*find_troubles(records)] == ["at_chance"]
    for record in records:  # 0.015 between the halves of three epochs is not learning
        record["relative_pyramid_s0"] = 1.3 - 0.01 * record["epochs_done"]
    assert [*find_troubles(records)] == ["at_chance"]


def test_frozen_prototypes_at_chance_are_no_trouble():
    assert not find_troubles(run((0, {"relative_pyramid_s0": 1.0, "frozen": 1.0})))


def test_a_loss_within_the_interval_is_no_trouble():
    assert not find_troubles(run((0, {"gain_over_start": -2.0, "gain_interval": 2.5})))


def test_a_loss_over_the_start_is_given_with_its_interval():
    (line,) = find_troubles(run((0, SIGNS["worse_than_start"][0]))).values()
    assert "the probe has gained -3.0 ± 2.0 points over the weights that the training" in line


def test_every_verdict_has_a_recorded_run():
    labels = {log["label"] for log in LOGS.values()}
    assert labels == {"healthy", *TROUBLES} - {"worse_than_start"}  # needs a probe


def test_a_healthy_term_may_be_above_chance_for_long():
    # One term is above chance for four epochs of 16 steps, but falls all the time.
    last = max(r["step"] for r in recorded(SHORT_EPOCHS) if r["relative_cross_s1"] >= AT_CHANCE)
    assert last > LEAST_STEPS


@pytest.mark.parametrize("name", LOGS)
def test_the_verdict_on_a_recorded_run(name):
    found = diagnose("log", recorded(name))
    label = LOGS[name]["label"]
    assert found.verdict == label
    assert found.lines[1].startswith("healthy: " if label == "healthy" else "trouble: ")


@pytest.mark.parametrize("name", [n for n, log in LOGS.items() if log["label"] == "healthy"])
def test_a_healthy_run_shows_no_trouble_at_any_time(name):
    records = recorded(name)
    for number in range(1, len(records)):
        assert not find_troubles(records[:number])


@pytest.fixture
def at_chance():
    return recorded(next(name for name, log in LOGS.items() if log["label"] == "at_chance"))


def test_too_few_lines_to_tell(at_chance):
    assert diagnose("log", at_chance[:2]).verdict == "too_short"


def test_too_few_steps_to_tell(at_chance):
    short = [record for record in at_chance if record["step"] < LEAST_STEPS]
    assert short[-1]["epochs_done"] > 3
    assert diagnose("log", short).verdict == "too_short"


def test_a_complete_run_is_whole_though_its_log_ends_before_its_last_step(tmp_path):
    """Lines come every few steps: the last one is of step 96 of 100, in epoch 9.6 of 10."""
    records = run(epochs=9)
    records.append({**records[-1], "epochs_done": 9.6, "progress": 0.96, "step": 960})
    assert diagnose(tmp_path, records).lines == [
        "trained: 9.6 of 10 epochs",
        "healthy: no sign of trouble",
    ]
    (tmp_path / "ssprl_resnet18_backbone.pth").touch()
    assert diagnose(tmp_path, records).lines[0] == "trained: 10.0 of 10 epochs"


@pytest.mark.parametrize(
    ("file", "last", "shown"),
    [
        ("ssprl_resnet18_best_backbone.pth", 0.96, "9.6"),  # of a probe, in between
        ("ssprl_resnet18_backbone.pth", 0.5, "5.0"),  # of a run that is now longer
    ],
)
def test_other_exports_do_not_make_a_run_complete(file, last, shown, tmp_path):
    records = [{**each, "progress": each["progress"] * last / 0.9} for each in run(epochs=9)]
    records[-1] |= {"epochs_done": 10 * last, "progress": last}
    (tmp_path / file).touch()
    assert diagnose(tmp_path, records).lines[0] == f"trained: {shown} of 10 epochs"


def test_the_progress_has_the_number_of_images(tmp_path):
    starts = [{"images": {"num_images": 90}}, {"images": {"num_images": 4500}}]
    (tmp_path / "run.json").write_text(json.dumps({"config": {}, "starts": starts}))
    line = diagnose(tmp_path, run(epochs=9)).lines[0]
    assert line == "trained: 9.0 of 10 epochs of 4,500 images"
