import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.datasets.labelled_folders import (
    HEIGHT,
    WIDTH,
    write_class_folders,
    write_coco,
    write_image,
    write_masks,
    write_voc,
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
from mmssprl.finetuning import start
from mmssprl.finetuning.predict import predict
from mmssprl.finetuning.start import finetune

pytestmark = pytest.mark.full


def train(folder, data, task, **options):
    """Train in silence, without a forecast of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(start, "forecast_finetuning", lambda cfg, work_dir: FORECAST)
        weights = write_weights(folder / "weights")
        return finetune(
            str(weights), str(data), task, folder / "run", log=lambda text: None, **options
        )


@pytest.fixture
def photographs(tmp_path):
    for index in range(2):
        write_image(tmp_path / "photographs" / "new" / f"{index}.jpg", index + 80)
    return tmp_path / "photographs"


def of_crowds(root):
    """Six of 16 images of train show more than crowds, and none of val does."""
    write_coco(root)
    for path in root.glob("*/*.json"):
        content = json.loads(path.read_text())
        for annotation in content["annotations"]:
            annotation["iscrowd"] = int(annotation["image_id"] >= 6)
        path.write_text(json.dumps(content))
    return root


def half_bare(root):
    """Half of the images show nothing."""
    for path in write_yolo(root).glob("labels/*/*.txt"):
        if int(path.stem) % 2:
            path.unlink()
    return root


@pytest.mark.parametrize(
    ("write", "task", "score"),
    [
        (of_crowds, "detect", "no score: val has no object that counts"),
        (half_bare, "detect", "box AP "),
        (write_coco, "segment", "mIoU "),
        (write_class_folders, "classify", "accuracy "),
    ],
)
def test_a_run_makes_the_planned_updates_and_prints_only_own_lines(
    tmp_path, capfd, monkeypatch, write, task, score
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(start, "forecast_finetuning", lambda cfg, work_dir: FORECAST)
    weights, data = write_weights(tmp_path / "weights"), write(tmp_path / "data")
    options = ["--epochs", "1", "--batch-size", "2", "--image-px", "40", "--lr", "1e-9"]
    with quiet_console():
        main(["finetune", str(weights), str(data), "--task", task, "--work-dir", "run", *options])
    text, errors = capfd.readouterr()
    for foreign in ("site-packages", "mmengine", "mmdet", "mmseg", "mmcv", "Loading"):
        assert foreign not in text + errors
    assert not re.search(r"\d\d:\d\d:\d\d| -\d", text + errors)  # a time, a score below 0
    assert f"val, last epoch: {score}" in text
    planned = int(re.search(r" 1, (\d+) updates", text)[1])
    records = [json.loads(line) for line in next(Path("run").rglob("scalars.json")).open()]
    assert max(record["iter"] for record in records if "loss" in record) == planned


def test_predictions_of_a_detector_with_masks_are_a_coco_file(photographs, tmp_path):
    data, out = write_coco(tmp_path / "data"), tmp_path / "out"
    outcome = train(tmp_path, data, "detect", epochs=1, image_px=48, batch_size=8)
    assert list(outcome.scores.total)[::3] == ["box AP", "mask AP"]
    assert all(path.is_file() for path in outcome.files)
    text = predict(outcome.checkpoint, photographs, out, log=lambda text: None)
    assert str(out / "predictions.json") in text
    content = COCO(str(out / "predictions.json"))
    images = [(image["file_name"], image["width"]) for image in content.dataset["images"]]
    assert images == [("new/0.jpg", WIDTH), ("new/1.jpg", WIDTH)]
    assert [c["name"] for c in content.dataset["categories"]] == ["square", "disc"]
    assert content.anns
    for annotation in content.anns.values():
        assert 0 <= annotation["score"] <= 1
        assert content.annToMask(annotation).shape == (HEIGHT, WIDTH)
    assert len(list((out / "pictures").rglob("*.jpg"))) == 2


def test_detector_of_boxes_on_a_frozen_backbone(tmp_path):
    data = write_voc(tmp_path / "data")
    options = {"epochs": 1, "image_px": 48, "batch_size": 8, "freeze": True}
    outcome = train(tmp_path, data, "detect", **options)
    assert list(outcome.scores.total) == ["box AP", "box AP50", "box AP75"]
    cfg = Config.fromfile(tmp_path / "run" / "detect.py")
    assert cfg.model.type == "FasterRCNN"
    before = torch.load(tmp_path / "weights" / "tiny_backbone.pth")
    after = torch.load(outcome.checkpoint, weights_only=True)["state_dict"]
    for key, value in before.items():
        assert torch.equal(after[f"backbone.{key}"], value), key


def test_a_segmentation_learns_what_mmsegs_own_metric_confirms(photographs, tmp_path):
    data, out = write_masks(tmp_path / "data"), tmp_path / "out"
    outcome = train(tmp_path, data, "segment", epochs=40, image_px=40, lr=0.01)
    run, total = outcome.checkpoint.parent, outcome.scores.total
    own = [line for line in logged(run) if "mIoU" in line][-1]
    assert total["mIoU"] == pytest.approx(own["mIoU"], abs=0.02)
    assert total["right pixels"] == pytest.approx(own["aAcc"], abs=0.02)
    assert total["mIoU"] > 50
    predict(run, photographs, out, pictures=1, log=lambda text: None)
    image = Image.open(out / "masks/new/1.png")
    assert (image.size, image.mode) == ((WIDTH, HEIGHT), "P")
    assert set(np.unique(np.asarray(image))) <= {0, 1, 2}
    assert (out / "classes.txt").read_text() == "background\ndisc\nsquare\n"
    assert len(list((out / "pictures").rglob("*.jpg"))) == 1
