import pytest
from helpers.experiments.tiny_compare import pretend, rows

from mmssprl.experiments.compare import setting


@pytest.fixture
def calls(compare, monkeypatch):
    """Do a call, and return the folders in which it has worked."""
    folders = pretend(monkeypatch, lambda run: 0.2)

    def call(*words):
        del folders[:]
        compare(equal=("time",), methods=words).run()
        return list(folders)

    call.data, call.work_dir = compare.data, compare.work_dir
    call.methods = lambda: [row["method"] for row in rows(call.work_dir / "results.csv")]
    return call


def test_runs_on_other_images_leave_the_tables_and_begin_anew(calls):
    calls("swav", "swav-small")
    assert calls.methods() == ["swav", "swav-small", "ssprl"]
    trained = calls.work_dir / "runs" / "swav-24ep-lr1-seed0" / "trained.json"
    trained.write_text("{}")
    annotations = calls.data / "annotations" / "instances_train2014.json"
    annotations.write_text(annotations.read_text().replace('"0.jpg"', '"renamed.jpg"'))
    (calls.data / "train2014" / "0.jpg").rename(calls.data / "train2014" / "renamed.jpg")
    runs = ["runs/swav-24ep-lr1-seed0", "runs/ssprl-6ep-lr1-seed0"]
    assert calls("swav") == ["paces/swav", "paces/ssprl", *runs]
    assert not trained.exists()  # it is of the former images
    assert calls.methods() == ["swav", "ssprl"]


@pytest.mark.parametrize("digest", ["recipe_digest", "code_digest"])
def test_runs_of_another_config_or_code_are_done_again(digest, calls, monkeypatch):
    calls("swav")
    former = getattr(setting, digest)
    for module in ("pace", "plan"):
        changed = f"mmssprl.experiments.compare.{module}.{digest}"
        monkeypatch.setattr(changed, lambda *args: f"new {former(*args)}")
    runs = ["runs/swav-24ep-lr1-seed0", "runs/ssprl-6ep-lr1-seed0"]
    assert calls("swav") == ["paces/swav", "paces/ssprl", *runs]
    assert calls.methods() == ["swav", "ssprl"]
    assert calls("swav") == []


def test_the_digest_of_the_code_is_of_what_trains(tmp_path, monkeypatch):
    for name in ("models/a.py", "functional/b.py", "datasets/transforms/c.py", "datasets/d.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    monkeypatch.setattr(setting, "__file__", str(tmp_path / "experiments/compare/setting.py"))
    digest = setting.code_digest.__wrapped__
    first = digest()
    (tmp_path / "datasets/d.py").write_text("2")
    assert digest() == first
    for name in ("models/a.py", "functional/b.py", "datasets/transforms/c.py"):
        (tmp_path / name).write_text("2")
        assert digest() != first
        (tmp_path / name).write_text("1")
