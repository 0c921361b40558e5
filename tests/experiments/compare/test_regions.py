from helpers.datasets.labelled_folders import write_coco
from helpers.experiments.tiny_compare import comparison, rows, stay_in_process

import mmssprl
from mmssprl.config.shipped import config_file

RANDOM = {"methods": ["random"], "reference": "random", "seeds": 1, "equal": ("epochs",)}


def test_a_comparison_has_a_column(tmp_path, monkeypatch):
    data, work_dir = write_coco(tmp_path / "data"), tmp_path / "work"
    stay_in_process(monkeypatch)
    assert comparison(work_dir, data, **RANDOM).run() == 0
    [row] = rows(work_dir / "results.csv")
    config = config_file("configs/ssprl/ssprl_resnet18_scenes.py")
    options = {"config": config, "image_px": 96, "progress": False}
    found = mmssprl.probe("random", data, **options).dense
    assert (float(row["mIoU"]), float(row["chance_mIoU"])) == (found.mIoU, found.chance_mIoU)
    table = (work_dir / "table.md").read_text()
    head, _, line = ([x.strip() for x in t.split("|")] for t in table.splitlines()[2:5])
    assert line[head.index("mIoU %")] == f"{100 * found.mIoU:.1f}"
    assert head.index("mIoU %") == 1 + head.index("mAP %")
    assert f"class has {100 * found.chance_mIoU:.1f} % mIoU" in table
