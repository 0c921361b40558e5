import json
import re

import numpy as np
import pytest
import torch
from helpers.datasets.labelled_folders import (
    HEIGHT,
    WIDTH,
    write_coco,
    write_image,
    write_masks,
    write_weights,
    write_yolo,
)
from helpers.pretraining.paces import FORECAST
from helpers.saving.stopped_runs import logged
from mmengine.config import Config
from PIL import Image
from pycocotools.coco import COCO

from mmssprl.cli import main
from mmssprl.console.quiet import quiet_console
from mmssprl.finetuning import plan
from mmssprl.finetuning.predict import predict

pytestmark = pytest.mark.full


@pytest.fixture
def run_command(tmp_path, capfd, monkeypatch):
    """Fine-tune into ``run``; check the updates and that only own lines are printed."""
    monkeypatch.setattr(plan, "forecast_finetuning", lambda cfg, work_dir: FORECAST)
    weights = write_weights(tmp_path / "weights")
    run = tmp_path / "run"

    def run_command(write, task, *options, epochs=1, **sizes):
        data = write(tmp_path / "data", **sizes)
        words = ["finetune", weights, data, "--task", task, *options]
        words += ["--work-dir", run, "--epochs", epochs]
        with quiet_console():
            assert main([str(word) for word in words]) == 0
        text, errors = capfd.readouterr()
        for foreign in ("site-packages", "mmengine", "mmdet", "mmseg", "mmcv", "Loading"):
            assert foreign not in text + errors
        assert not re.search(r"\d\d:\d\d:\d\d| -\d", text + errors)  # a time, a score below 0
        planned = int(re.search(rf" {epochs}, (\d+) updates", text)[1])
        assert max(line["iter"] for line in logged(run) if "loss" in line) == planned
        return text, json.loads((run / "scores.json").read_text())

    return run_command


@pytest.fixture
def photographs(tmp_path):
    for index in range(2):
        write_image(tmp_path / "photographs" / "new" / f"{index}.jpg", index + 80)
    return tmp_path / "photographs"


def of_crowds(root):
    """Six of 10 images of train show more than crowds, and none of val does."""
    write_coco(root, num_train=10, num_val=2)
    for path in root.glob("*/*.json"):
        content = json.loads(path.read_text())
        for annotation in content["annotations"]:
            annotation["iscrowd"] = int(annotation["image_id"] >= 6)
        path.write_text(json.dumps(content))
    return root


def half_bare(root):
    """Half of the images show nothing."""
    for path in write_yolo(root, num_train=8, num_val=4).glob("labels/*/*.txt"):
        if int(path.stem) % 2:
            path.unlink()
    return root


def test_images_without_an_object_that_counts_are_not_trained_on_or_scored(run_command):
    text, _ = run_command(of_crowds, "detect", "--batch-size", "2", "--image-px", "40")
    assert "val, last epoch: no score: val has no object that counts" in text


def test_predictions_of_a_detector_with_masks_are_a_coco_file(run_command, photographs, tmp_path):
    out = tmp_path / "out"
    options = ("--batch-size", "4", "--image-px", "48")
    _, scores = run_command(write_coco, "detect", *options, num_train=8, num_val=2)
    assert [*scores][:6:3] == ["box AP", "mask AP"]
    # Resized to 48 px, this image has no height.
    Image.new("RGB", (3000, 3)).save(photographs / "narrow.png")
    text = predict(tmp_path / "run/epoch_1.pth", photographs, out, log=lambda text: None)
    assert str(out / "predictions.json") in text
    bad = (out / "bad_images.txt").read_text()
    assert bad.startswith("narrow.png: 3000 x 3 px cannot be resized")
    content = COCO(str(out / "predictions.json"))
    images = [(image["file_name"], image["width"]) for image in content.dataset["images"]]
    assert images == [("new/0.jpg", WIDTH), ("new/1.jpg", WIDTH)]
    assert [c["name"] for c in content.dataset["categories"]] == ["square", "disc"]
    assert content.anns
    for annotation in content.anns.values():
        assert 0 <= annotation["score"] <= 1
        assert content.annToMask(annotation).shape == (HEIGHT, WIDTH)
    assert len(list((out / "pictures").rglob("*.jpg"))) == 2


def test_a_detector_of_boxes_on_a_frozen_backbone(run_command, tmp_path):
    options = ("--batch-size", "2", "--image-px", "40", "--freeze")
    text, scores = run_command(half_bare, "detect", *options)
    assert "val, last epoch: box AP " in text
    assert [*scores][:4] == ["box AP", "box AP50", "box AP75", "num_train"]
    assert Config.fromfile(tmp_path / "run/detect.py").model.type == "FasterRCNN"
    before = torch.load(tmp_path / "weights/tiny_backbone.pth")
    after = torch.load(tmp_path / "run/epoch_1.pth", weights_only=True)["state_dict"]
    for key, value in before.items():
        assert torch.equal(after[f"backbone.{key}"], value), key


def test_a_segmentation_learns_what_its_validations_log(run_command, photographs, tmp_path):
    run = tmp_path / "run"
    out = tmp_path / "out"
    options = ("--image-px", "40", "--lr", "0.01")
    _, scores = run_command(write_masks, "segment", *options, epochs=20, num_val=4)
    own = [line for line in logged(run) if "mIoU" in line][-1]
    assert scores["mIoU"] == pytest.approx(own["mIoU"], abs=0.02)
    assert scores["right pixels"] == pytest.approx(own["aAcc"], abs=0.02)
    assert scores["mIoU"] > 50
    predict(run, photographs, out, pictures=1, log=lambda text: None)
    image = Image.open(out / "masks/new/1.png")
    assert (image.size, image.mode) == ((WIDTH, HEIGHT), "P")
    assert set(np.unique(np.asarray(image))) <= {0, 1, 2}
    assert image.getpalette()[:9] == [0, 0, 0, 128, 0, 0, 0, 128, 0]
    assert (out / "classes.txt").read_text() == "background\ndisc\nsquare\n"
    assert len(list((out / "pictures").rglob("*.jpg"))) == 1
