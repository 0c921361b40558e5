"""The layouts of real data: photographs of COCO, and of Corel sorted into folders."""

import json
import os
from collections import Counter
from pathlib import Path

import pytest
from labelled_folders import write_weights

from mmssprl.datasets.labels import find_labels
from mmssprl.finetuning import start
from mmssprl.finetuning.predict import predict
from mmssprl.finetuning.start import finetune

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.full,
    pytest.mark.skipif(not DATA.is_dir(), reason="no data beside the repository"),
]


@pytest.fixture(scope="module")
def class_folders(tmp_path_factory):
    """Link photographs of Corel that have one of three labels, into a folder per label."""
    root = tmp_path_factory.mktemp("corel")
    content = json.loads((DATA / "corel5k/annotations/instances_train2014.json").read_text())
    names = {category["id"]: category["name"] for category in content["categories"]}
    labels: dict[int, set[str]] = {image["id"]: set() for image in content["images"]}
    for annotation in content["annotations"]:
        labels[annotation["image_id"]].add(names[annotation["category_id"]])
    counts: Counter[str] = Counter()
    for image in content["images"]:
        own = labels[image["id"]] & {"plane", "bear", "flowers"}
        if len(own) == 1 and counts[min(own)] < 30:
            counts.update(own)
            folder = root / min(own)
            folder.mkdir(exist_ok=True)
            os.symlink(DATA / "corel5k/train2014" / image["file_name"], folder / image["file_name"])
    assert set(counts.values()) == {30}
    return root


@pytest.mark.parametrize(
    ("name", "task", "layout", "num_classes"),
    [
        ("coco128", "classify", "COCO", 80),
        ("coco128", "detect", "COCO", 80),
        ("voc128", "classify", "PASCAL VOC", 19),
        ("voc128", "detect", "PASCAL VOC", 19),
        ("voc128", "segment", "label images", 21),
    ],
)
def test_layouts_are_found(name, task, layout, num_classes):
    data = find_labels(DATA / name, task)
    assert (data.layout, len(data.classes)) == (layout, num_classes)
    assert [len(data.train), len(data.val)] == [100, 100]
    assert data.has_masks == (name == "coco128" or task == "segment")


@pytest.mark.parametrize(
    ("name", "task", "score"),
    [
        ("coco128", "classify", "mAP"),
        ("coco128", "detect", "box AP"),
        ("voc128", "classify", "mAP"),
        ("voc128", "detect", "box AP"),
        ("voc128", "segment", "mIoU"),
        ("class_folders", "classify", "accuracy"),
    ],
)
def test_a_training_and_its_predictions(name, task, score, tmp_path, request):
    data = request.getfixturevalue(name) if name == "class_folders" else DATA / name
    weights = write_weights(tmp_path / "weights")
    lines: list[str] = []
    outcome = finetune(
        str(weights), str(data), task, tmp_path / "run", epochs=1, image_px=64, log=lines.append
    )
    assert next(iter(outcome.scores.total)) == score
    assert any(line.startswith("forecast: 1 epoch,") for line in lines)
    assert (tmp_path / "run" / "predictions.png").is_file()
    photographs = tmp_path / "photographs"
    photographs.mkdir()
    for path in sorted((DATA / "coco128/val2014").iterdir())[:5]:
        os.symlink(path, photographs / path.name)
    text = predict(tmp_path / "run", photographs, tmp_path / "out", log=lambda text: None)
    assert "pictures of 5 images" in text


def test_folders_of_classes_are_learned(class_folders, tmp_path, monkeypatch):
    monkeypatch.setattr(start, "may_start", lambda forecast, yes: True)
    options = {"epochs": 12, "image_px": 64, "backbone": "resnet18"}
    outcome = finetune(
        "random", str(class_folders), "classify", tmp_path / "run", log=lambda text: None, **options
    )
    assert outcome.scores.total["accuracy"] > 50  # 33 by chance
