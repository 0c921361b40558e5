import json
import shutil
from pathlib import Path

import pytest
from prepare_folders import (
    by_name,
    coco_images,
    cut_off,
    run_remedy,
    statuses,
    write_coco,
    write_coco_json,
)

from mmssprl.preparation import coco
from mmssprl.preparation.coco import check
from mmssprl.preparation.samples import spread

COCO128 = Path(__file__).resolve().parents[3] / "shared" / "data" / "coco128"
TRAIN_JSON = "annotations/instances_train2014.json"


@pytest.fixture
def root(tmp_path):
    return write_coco(tmp_path / "co co")


@pytest.mark.parametrize(
    ("count", "size", "expected"),
    [
        (3, 4, [0, 1, 2]),
        (4, 4, [0, 1, 2, 3]),
        (5, 4, [0, 1, 2, 4]),
        (10, 4, [0, 3, 6, 9]),
        (82783, 3, [0, 41391, 82782]),
    ],
)
def test_a_sample_is_spread_over_all(count, size, expected):
    assert spread(range(count), size) == expected


def test_a_complete_folder(root):
    found = check(root, any_size=True)
    assert statuses(found) == {"OK"}
    assert not any(item.remedy for item in found)
    found = by_name(found)
    assert found[TRAIN_JSON].detail == "3 images, 3 annotations, 2 categories"
    assert found["val2014/"].detail == "all 2 files are there"
    assert found["train2014: sample"].detail == "3 of 3 files are right"


def test_the_official_numbers_are_wanted_unless_any_size(root, monkeypatch):
    found = by_name(check(root))
    assert found[TRAIN_JSON].status == "WRONG"
    assert found[TRAIN_JSON].detail.startswith("not the official set: 3 of 82,783 images")
    assert found["annotations/instances_val2014.json"].detail.startswith(
        "not the official set: 2 of 40,504 images"
    )
    assert "--any-size" in found[TRAIN_JSON].remedy
    assert "unzip -q -o" not in found[TRAIN_JSON].remedy  # it may be the user's own file
    monkeypatch.setattr(coco, "SPLITS", {"train2014": 3, "val2014": 2})
    assert by_name(check(root))[TRAIN_JSON].detail.endswith("2 of 80 categories")
    monkeypatch.setattr(coco, "NUM_CATEGORIES", 2)
    assert statuses(check(root)) == {"OK"}


def test_an_empty_set_is_wrong_at_any_size(root):
    write_coco_json(root, "train2014", [])
    assert by_name(check(root, any_size=True))[TRAIN_JSON].status == "WRONG"


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("{", "must be JSON, but "),
        ("[]", "must hold the list(s) images"),
        (json.dumps({"images": [{"file_name": "a.jpg"}], "annotations": [], "categories": []}),
         "each entry of images must have id and file_name, but entry 0 is {'file_name': 'a.jpg'}"),
    ],
)  # fmt: skip
def test_annotations_that_cannot_be_used(root, text, detail):
    (root / TRAIN_JSON).write_text(text)
    found = by_name(check(root, any_size=True))
    assert found[TRAIN_JSON].status == "WRONG"
    assert found[TRAIN_JSON].detail.startswith(detail)
    assert "unzip -q -o " in found[TRAIN_JSON].remedy
    assert found["train2014/"].status == "OK"
    assert "train2014: sample" not in found


def test_ids_must_differ(root):
    images = coco_images(3)
    images[2]["id"] = images[0]["id"]
    write_coco_json(root, "train2014", images)
    detail = by_name(check(root, any_size=True))[TRAIN_JSON].detail
    assert "entries 0 and 2 both have 1" in detail


@pytest.mark.parametrize("where", ["train2014", "sub folder"])
def test_a_missing_image(root, where):
    images = coco_images(3)
    if where == "sub folder":
        images[1]["file_name"] = "more/001.jpg"
        write_coco_json(root, "train2014", images)
    (root / "train2014" / "001.jpg").unlink()
    found = by_name(check(root, any_size=True))
    assert found["train2014/"].status == "MISSING"
    assert found["train2014/"].detail == (
        f"1 of 3 files are not there, first {images[1]['file_name']}"
    )
    assert "zips/train2014.zip" in found["train2014/"].remedy
    assert "train2014: sample" not in found
    assert found["val2014/"].status == "OK"


def test_a_damaged_image(root):
    cut_off(root / "train2014" / "002.jpg")
    found = by_name(check(root, any_size=True))["train2014: sample"]
    assert found.status == "WRONG"
    assert found.detail.startswith("1 of 3 sampled files are bad, first 002.jpg: it cannot be")
    assert "unzip -q -o " in found.remedy


@pytest.mark.skipif(shutil.which("unzip") is None, reason="unzip is not installed")
def test_the_printed_commands_complete_the_folder(root, tmp_path):
    archives = tmp_path / "archives"
    archives.mkdir()
    for name in ("train2014", "val2014", "annotations"):
        target = f"{name}_trainval2014" if name == "annotations" else name
        shutil.make_archive(str(archives / target), "zip", root, name)
    before = {path: path.read_bytes() for path in root.rglob("*.*")}
    (root / "train2014" / "000.jpg").unlink()
    cut_off(root / "val2014" / "001.jpg")
    (root / TRAIN_JSON).write_text("{")
    for _ in range(2):  # what an unreadable json hides comes second
        for item in check(root, any_size=True):
            if item.remedy:
                run_remedy(item.remedy, archives)
    assert {path: path.read_bytes() for path in root.rglob("*.*") if path in before} == before
    assert statuses(check(root, any_size=True)) == {"OK"}


def test_nothing_there(tmp_path):
    found = check(tmp_path / "coco")
    assert [(item.name, item.status) for item in found] == [
        (TRAIN_JSON, "MISSING"),
        ("train2014/", "MISSING"),
        ("annotations/instances_val2014.json", "MISSING"),
        ("val2014/", "MISSING"),
    ]
    assert not (tmp_path / "coco").exists()


@pytest.mark.skipif(not COCO128.is_dir(), reason=f"no {COCO128}")
def test_real_images():
    found = check(COCO128, any_size=True)
    assert statuses(found) == {"OK"}
    assert by_name(found)["train2014/"].detail == "all 100 files are there"
    assert statuses(check(COCO128)) == {"OK", "WRONG"}
