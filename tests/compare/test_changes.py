"""What later calls make of a work dir whose configs, images or files have changed."""

import json

import pytest
from probe_folders import write_coco
from tiny_compare import pretend, request, rows

from mmssprl.compare import setting
from mmssprl.compare.start import Comparison


class Calls:
    def __init__(self, root, patch):
        self.data, self.work_dir = write_coco(root), root / "work"
        self.folders = pretend(patch, lambda run: 0.2)

    def __call__(self, *words, **changes):
        """Do a call, and return the folders in which it has worked."""
        del self.folders[:]
        lines = []
        values = {"num_seeds": 1, "epochs": 6, "budgets": ("epochs",), "words": words, **changes}
        Comparison(request(self.work_dir, self.data, **values), lines.append).run()
        return list(self.folders)

    def methods(self):
        return [row["method"] for row in rows(self.work_dir / "results.csv")]


@pytest.fixture
def calls(tmp_path, monkeypatch):
    return Calls(tmp_path, monkeypatch)


def rename_an_image(data):
    annotations = data / "annotations" / "instances_train2014.json"
    content = json.loads(annotations.read_text())
    content["images"][0]["file_name"] = "renamed.jpg"
    annotations.write_text(json.dumps(content))
    (data / "train2014" / "0.jpg").rename(data / "train2014" / "renamed.jpg")


def test_runs_on_other_images_leave_the_tables_and_begin_anew(calls):
    calls("swav", "swav-small")
    assert calls.methods() == ["swav", "swav-small", "ssprl"]
    trained = calls.work_dir / "runs" / "swav-6ep-lr1-seed0" / "trained.json"
    trained.write_text("{}")
    rename_an_image(calls.data)
    assert calls("swav") == [f"runs/{key}-6ep-lr1-seed0" for key in ("swav", "ssprl")]
    assert not trained.exists()  # it is of the former images
    assert calls.methods() == ["swav", "ssprl"]


def test_a_config_that_has_changed_is_measured_and_trained_again(calls, monkeypatch):
    calls("swav")
    former = setting.recipe_digest
    for module in ("paces", "plan"):
        monkeypatch.setattr(
            f"mmssprl.compare.{module}.recipe_digest", lambda *args: f"new {former(*args)}"
        )
    runs = [f"runs/{key}-6ep-lr1-seed0" for key in ("swav", "ssprl")]
    assert calls("swav") == ["paces/1", *runs]
    assert calls("swav") == []


def test_a_damaged_result_is_named(calls):
    calls("swav")
    damaged = calls.work_dir / "runs" / "swav-6ep-lr1-seed0" / "result.json"
    damaged.write_text(damaged.read_text()[:20])
    with pytest.raises(RuntimeError, match=f"{damaged} is damaged .* delete it"):
        calls("swav")
    damaged.unlink()
    assert calls("swav") == ["runs/swav-6ep-lr1-seed0"]


@pytest.mark.parametrize("tune", [False, True])
def test_a_dry_run_tells_no_time_before_the_paces(tune, calls):
    lines = []
    values = {"tune": tune, "budgets": ("epochs",), "words": ["swav"]}
    Comparison(request(calls.work_dir, calls.data, **values), lines.append).describe()
    assert lines == ["time of the runs: unknown until the paces are measured, as the command does"]


def test_a_tuning_below_one_epoch_names_its_own_option(calls):
    # 3 x 0.4 / 3.0 is 0.4 of an epoch.
    with pytest.raises(ValueError, match="0.40 of supervised .* raise --tuning-epochs to 8"):
        calls("supervised", tune=True, tuning_epochs=3)
    assert calls.folders == ["paces/0"]
