import json

import pytest
import torch
from mmengine.config import Config

from mmssprl.cli import main
from mmssprl.features import (
    find_probe_data,
    fit_linear_probe,
    linear_probe,
    load_frozen_backbone,
    mean_average_precision,
)
from mmssprl.features.extract import extract_split
from mmssprl.weights import load_backbone


class TestLinearProbe:
    def test_colours_are_read_off_random_features(self, coco, config):
        metrics = linear_probe("random", coco, config=config, seed=0, progress=False)
        assert metrics["mAP"] == 1.0
        assert metrics["chance_mAP"] == 0.5
        assert metrics["per_class"] == {"green": 1.0, "red": 1.0}
        assert (metrics["num_train"], metrics["num_test"], metrics["num_features"]) == (24, 12, 16)
        assert metrics["image_px"] == 32  # the layout's

    def test_the_parts_are_put_together(self, voc, config):
        # Labels of other images: no easy mAP of 1, every digit depends on the features.
        files = sorted((voc / "Annotations").glob("*.xml"))
        texts = [file.read_text() for file in files]
        for file, i in zip(
            files, torch.randperm(36, generator=torch.Generator().manual_seed(0)), strict=True
        ):
            file.write_text(texts[i])
        metrics = linear_probe("random", voc, config=config, image_px=40, seed=2, progress=False)
        data = find_probe_data(voc)
        model = load_frozen_backbone("random", config, image_px=40, seed=2)
        (train, train_y), (test, test_y) = (
            extract_split(model, split, device=torch.device("cpu"), progress=False)
            for split in (data.train, data.test)
        )
        probe = fit_linear_probe(train, train_y, seed=2)
        expected, areas = mean_average_precision(probe(test), test_y)
        assert metrics["mAP"] == expected < 1
        assert metrics["strength"] == probe.strength
        assert metrics["per_class"] == {"green": areas[0], "red": areas[1], "zebra": None}
        assert metrics["layout"] == "PASCAL VOC"

    def test_device_must_exist(self, coco, config):
        with pytest.raises(ValueError, match=r"got 'cuda:99' .*; use 'auto' or 'cpu'"):
            linear_probe("random", coco, config=config, device="cuda:99", progress=False)


class TestCommand:
    def test_prints_a_table_and_writes_the_numbers(self, coco, config, tmp_path, capsys):
        state = load_backbone("random", Config.fromfile(config)).state_dict()
        torch.save(state, tmp_path / "tiny_backbone.pth")
        out = tmp_path / "new" / "metrics.json"
        argv = ["probe", str(tmp_path / "tiny_backbone.pth"), str(coco), "--out", str(out)]
        argv += ["--num-workers", "0", "--device", "cpu", "--per-class"]
        assert main(argv) == 0
        printed = capsys.readouterr().out
        assert ": COCO, 36 images (24 to train on and 12 to validate with: " in printed
        row = next(line for line in printed.splitlines() if "| tiny_backbone.pth |" in line)
        cells = [cell.strip() for cell in row.split("|")]
        assert cells[3:-1] == ["24 + 12", "2", "32", "100.00", "50.00"]
        assert "| green | 100.00 |" in printed
        assert json.loads(out.read_text())["mAP"] == 1.0

        assert main(argv) == 2
        message = capsys.readouterr().err
        assert message.startswith("mmssprl probe: error: the output must not exist yet")
        assert message.count("\n") == 1
        out.write_text("old")
        assert main([*argv, "--force"]) == 0
        assert json.loads(out.read_text())["num_train"] == 24
