import pytest
from helpers.experiments.tiny_compare import pretend, rows


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


def test_runs_on_other_images_leave_the_tables_and_start_again(calls):
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


@pytest.mark.parametrize(
    ("name", "new"), [("recipe_digest", lambda *_: "new"), ("__version__", "a later one")]
)
def test_runs_of_another_config_or_version_are_done_again(name, new, calls, monkeypatch):
    calls("swav")
    monkeypatch.setattr(f"mmssprl.experiments.compare.plan.{name}", new)
    runs = ["runs/swav-24ep-lr1-seed0", "runs/ssprl-6ep-lr1-seed0"]
    assert calls("swav") == ["paces/swav", "paces/ssprl", *runs]
    assert calls.methods() == ["swav", "ssprl"]
    assert calls("swav") == []
