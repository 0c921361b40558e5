import pytest
from helpers.experiments.tiny_compare import pretend, rows

RUNS = ["runs/swav-24ep-lr1-seed0", "runs/ssprl-6ep-lr1-seed0"]


@pytest.mark.parametrize("change", ["images", "recipe_digest", "__version__"])
def test_runs_on_other_images_or_of_other_code_leave_the_tables_and_start_again(
    change, compare, monkeypatch
):
    folders = pretend(monkeypatch, lambda run: 0.2)

    def call(*words):
        del folders[:]
        compare(equal=("time",), methods=words).run()
        return [row["method"] for row in rows(compare.work_dir / "results.csv")]

    assert call("swav", "swav-small") == ["swav", "swav-small", "ssprl"]
    trained = compare.work_dir / RUNS[0] / "trained.json"
    trained.write_text("{}")
    if change == "images":
        annotations = compare.data / "annotations" / "instances_train2014.json"
        annotations.write_text(annotations.read_text().replace('"0.jpg"', '"renamed.jpg"'))
        (compare.data / "train2014" / "0.jpg").rename(compare.data / "train2014" / "renamed.jpg")
    else:
        new = {"recipe_digest": lambda *_: "new", "__version__": "a later one"}[change]
        monkeypatch.setattr(f"mmssprl.experiments.compare.start.{change}", new)
    assert call("swav") == ["swav", "ssprl"]
    assert folders == ["paces/swav", "paces/ssprl", *RUNS]
    assert not trained.exists()  # it is of the former ones
    call("swav")
    assert folders == []
