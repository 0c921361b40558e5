import json

from helpers.datasets.labelled_folders import write_coco
from helpers.experiments.tiny_compare import comparison, rows, stay_in_process

import mmssprl
from mmssprl.config.shipped import config_file

RANDOM = {"methods": ["random"], "reference": "random", "seeds": 1, "equal": ("epochs",)}


def test_a_comparison_has_a_column_and_reads_runs_without(tmp_path, monkeypatch):
    data, work_dir = write_coco(tmp_path / "data"), tmp_path / "work"
    stay_in_process(monkeypatch)
    assert comparison(work_dir, data, **RANDOM).run() == 0
    [row] = rows(work_dir / "results.csv")
    config = config_file("configs/ssprl/ssprl_resnet18_scenes.py")
    options = {"config": config, "image_px": 96, "progress": False}
    found = mmssprl.probe("random", data, **options).dense
    assert (float(row["mIoU"]), float(row["chance_mIoU"])) == (found.mIoU, found.chance_mIoU)
    scores = [name for name in row if "m" in name and name[-1] in "PU"]
    assert scores == ["mAP", "chance_mAP", "mIoU", "chance_mIoU"]
    table = (work_dir / "table.md").read_text()
    head, _, line = ([x.strip() for x in t.split("|")] for t in table.splitlines()[2:5])
    assert line[head.index("mIoU %")] == f"{100 * found.mIoU:.1f}"
    assert head.index("mIoU %") == 1 + head.index("mAP %")
    assert f"class has {100 * found.chance_mIoU:.1f} % mIoU" in table
    # As a former version has left it.
    [path] = work_dir.glob("runs/*/result.json")
    kept = json.loads(path.read_text())
    kept["values"] = {k: v for k, v in kept["values"].items() if "mIoU" not in k}
    path.write_text(json.dumps(kept))
    old = comparison(work_dir, data, **RANDOM)
    assert old.run() == 0
    assert rows(work_dir / "results.csv")[0]["mIoU"] == ""
