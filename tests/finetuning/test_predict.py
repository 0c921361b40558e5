"""Predictions are written while they are made, and a stopped predict keeps them."""

import csv
import gc
import io
import json
import os
import signal
import weakref

import numpy as np
import pytest
import torch
from helpers.datasets.image_folders import folder
from mmengine.config import Config
from mmpretrain.structures import DataSample
from PIL import Image
from pycocotools.coco import COCO

from mmssprl.config.shipped import shipped
from mmssprl.finetuning import predict as module
from mmssprl.finetuning.predict import predict
from mmssprl.finetuning.tasks import TASKS
from mmssprl.system.stopping import Interrupted

CLASSES = ["disc", "square"]
NAMES = ["00.png", "01.png", "02.png"]
CODE = {"size": [4, 3], "counts": "04800000"}
OBJECTS = ((3, 4), [{"category_id": 1, "bbox": [0, 0, 1, 1], "score": 0.5, "segmentation": CODE}])


def label_image():
    file = io.BytesIO()
    Image.fromarray(np.zeros((4, 3), np.uint8)).save(file, format="PNG")
    return file.getvalue()


TASKS_WITH_PREDICTIONS = {
    "classify": (TASKS["classify"](CLASSES, single_label=False), np.float32([0.1, 0.9])),
    "detect": (TASKS["detect"](CLASSES, masks=True), OBJECTS),
    "segment": (TASKS["segment"](CLASSES), label_image()),
}


def num_in(out):
    """Images in the whole files of a folder."""
    if (out / "masks").is_dir():
        return len([path for path in (out / "masks").iterdir() if Image.open(path).size == (3, 4)])
    if (out / "predictions.json").is_file():
        content = COCO(str(out / "predictions.json"))
        assert all(len(content.imgToAnns[number]) == 1 for number in content.imgs)
        return len(content.imgs)
    return len(list(csv.DictReader((out / "scores.csv").open())))


class Model:
    """Returns equal scores, or calls ``at`` at the image of a number."""

    def __init__(self, number=-1, at=None):
        self.number = number
        self.at = at
        self.num_called = 0

    def test_step(self, batch):
        if self.num_called == self.number:
            self.at()
        self.num_called += 1
        return [DataSample().set_pred_score(torch.tensor([0.1, 0.9]))]


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Predict images with a model, as a task with fixed predictions."""
    cfg = Config.fromfile(shipped("configs/_base_/finetune_classify.py"))
    (tmp_path / "run").mkdir()
    cfg.dump(tmp_path / "run" / "classify.py")
    torch.save({}, tmp_path / "run" / "weights.pth")

    def start(kind, model, bad=(), place="out"):
        task, prediction = TASKS_WITH_PREDICTIONS[kind]
        monkeypatch.setattr(task, "read", lambda sample: prediction)
        monkeypatch.setattr(module, "load_model", lambda *args: model)
        monkeypatch.setattr(module, "task_of", lambda cfg: task)
        photos = folder(tmp_path / "photos", 6, bad)
        printed = []
        out = tmp_path / place
        try:
            predict(tmp_path / "run/weights.pth", photos, out, pictures=0, log=printed.append)
        finally:
            start.printed = printed
        return out

    return start


@pytest.mark.parametrize("kind", TASKS_WITH_PREDICTIONS)
def test_no_file_says_that_a_whole_prediction_is_unfinished(start, kind):
    out = start(kind, Model(), bad=(1,))
    assert num_in(out) == 5
    assert not (out / "unfinished.txt").exists()
    assert "01.png" in (out / "bad_images.txt").read_text()


def test_images_of_formats_that_are_not_read_are_counted(start, tmp_path):
    (tmp_path / "photos").mkdir()
    for name in ("a.HEIC", "b.heic", "c.dcm", "d.txt"):
        (tmp_path / "photos" / name).touch()
    start("classify", Model())
    line = "left out: 3 images of formats that are not read (.dcm, .heic); convert to JPEG or PNG."
    assert start.printed[1:] == [line]


@pytest.mark.parametrize(("place", "is_told"), [("out", False), ("photos/a/out", True)])
def test_a_folder_within_the_images_is_reported(start, place, is_told):
    start("classify", Model(), place=place)
    line = "is in the folder of the images, and may be read with them next time."
    assert any(line in each for each in start.printed) == is_told


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("kind", TASKS_WITH_PREDICTIONS)
def test_a_stopped_prediction_keeps_what_it_has_done(start, kind, number, tmp_path, capfd):
    model = Model(2, lambda: os.kill(os.getpid(), number))
    with pytest.raises(Interrupted, match=number.name):
        start(kind, model)
    assert f"{number.name}: stopping after this image; once more ends" in capfd.readouterr().err
    out = tmp_path / "out"
    assert num_in(out) == model.num_called == 3  # the current image is finished
    assert (out / "unfinished.txt").read_text() == "3 of 6 images are predicted.\n"
    assert start.printed[-1].startswith(f"stopped: 3 of 6 images are predicted. {out} holds them;")
    assert not list(out.rglob("*.part"))
    with pytest.raises(FileExistsError, match="of a predict that did not finish; give another"):
        start(kind, Model())


def test_one_process_at_a_time_writes_to_a_folder(start):
    def start_again():
        with pytest.raises(RuntimeError, match="out, but another one does; wait for it"):
            start("classify", Model())

    out = start("classify", Model(0, start_again))
    assert num_in(out) == 6
    assert sorted(path.name for path in out.iterdir()) == ["classes.txt", "scores.csv"]


def test_an_error_keeps_what_was_predicted_before_it(start, tmp_path):
    def fail():
        raise torch.cuda.OutOfMemoryError("too large")

    with pytest.raises(torch.cuda.OutOfMemoryError, match="too large"):
        start("classify", Model(4, fail))
    assert num_in(tmp_path / "out") == 4
    assert "4 of 6" in (tmp_path / "out/unfinished.txt").read_text()


def test_an_error_at_the_first_image_leaves_no_folder(start, tmp_path):
    def fail():
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        start("classify", Model(0, fail))
    assert not (tmp_path / "out").exists()


def test_no_readable_image_leaves_no_folder(start, tmp_path):
    with pytest.raises(ValueError, match="none of 6 images can be read"):
        start("classify", Model(), bad=range(6))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", TASKS_WITH_PREDICTIONS)
def test_predictions_are_written_as_they_come(kind, tmp_path):
    task, prediction = TASKS_WITH_PREDICTIONS[kind]

    def come():
        for number, name in enumerate(NAMES):
            assert len([*tmp_path.rglob("*.png")]) == (number if kind == "segment" else 0)
            yield name, prediction

    (line,) = task.write(tmp_path, NAMES, come())
    assert num_in(tmp_path) == 3
    assert line.split()[0] in {"scores", "3"}


def test_a_class_that_is_named_like_a_column_keeps_its_scores(tmp_path):
    task = TASKS["classify"](["best", "image", "other"], single_label=True)
    task.write(tmp_path, ["a.jpg"], [("a.jpg", np.float32([0.1, 0.2, 0.7]))])
    [row] = csv.DictReader((tmp_path / "scores.csv").open())
    scores = {"best (class)": "0.1000", "image (class)": "0.2000", "other": "0.7000"}
    assert row == {"image": "a.jpg", "best": "other", **scores}


def test_objects_are_not_kept_in_memory(tmp_path):
    task, (size, objects) = TASKS_WITH_PREDICTIONS["detect"]
    alive = weakref.WeakSet()

    class Mask(dict):
        __hash__ = object.__hash__

    def come():
        for name in NAMES * 5:
            gc.collect()
            assert len(alive) <= 1  # of the loop's own variables
            mask = Mask(CODE)
            alive.add(mask)
            yield name, (size, [{**objects[0], "segmentation": mask}])
            del mask

    task.write(tmp_path, NAMES, come())
    assert len(json.loads((tmp_path / "predictions.json").read_text())["annotations"]) == 15
