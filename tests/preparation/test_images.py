import shutil

import pytest
from helpers.preparation.prepare_folders import (
    by_name,
    coco_images,
    run_remedy,
    shell,
    statuses,
    write_coco,
    write_coco_json,
    write_imagenet,
)

from mmssprl.preparation import check_data, data_sets

TRAIN_JSON = "annotations/instances_train2014.json"


@pytest.fixture
def root(tmp_path):
    return write_coco(tmp_path / "co co")


def check(root):
    return by_name(check_data("coco", root, any_size=True))


def test_a_complete_folder(root):
    found = check_data("coco", root, any_size=True)
    assert statuses(found) == {"OK"}
    assert not any(item.remedy for item in found)
    assert by_name(found)[TRAIN_JSON].detail == "3 images, 3 annotations, 2 categories"
    assert by_name(found)["val2014/"].detail == "all 2 files are there"


def test_the_official_numbers_are_wanted_unless_any_size(root, monkeypatch):
    found = by_name(check_data("coco", root))
    assert found[TRAIN_JSON].status == "WRONG"
    assert "3 of 82,783 images" in found[TRAIN_JSON].detail
    assert "2 of 40,504 images" in found["annotations/instances_val2014.json"].detail
    assert "--any-size" in found[TRAIN_JSON].remedy
    monkeypatch.setattr(data_sets, "COCO_IMAGES", {"train2014": 3, "val2014": 2})
    assert statuses(check_data("coco", root)) == {"OK"}
    write_coco_json(root, "train2014", [])
    assert check(root)[TRAIN_JSON].status == "WRONG"  # at any size


@pytest.mark.parametrize("text", ["{", "[]", '{"images": [{}], "annotations": []}'])
def test_annotations_that_cannot_be_used(root, text):
    (root / TRAIN_JSON).write_text(text)
    found = check(root)
    assert found[TRAIN_JSON].status == "WRONG"
    assert found[TRAIN_JSON].remedy.startswith("# move it away first")  # it may be the user's own
    assert found["train2014/"].status == "OK"


@pytest.mark.parametrize("name", ["001.jpg", "more/001.jpg"])
def test_a_missing_image(root, name):
    images = coco_images(3)
    images[1]["file_name"] = name
    write_coco_json(root, "train2014", images)
    (root / "train2014" / "001.jpg").unlink()
    found = check(root)
    assert found["train2014/"].status == "MISSING"
    assert found["train2014/"].detail == f"1 of 3 files are not there, first {name}"
    assert "zips/train2014.zip" in found["train2014/"].remedy
    assert found["val2014/"].status == "OK"


@pytest.mark.skipif(shutil.which("unzip") is None, reason="unzip is not installed")
def test_the_printed_commands_complete_the_folder_and_replace_nothing(root, tmp_path):
    archives = tmp_path / "archives"
    archives.mkdir()
    for name in ("train2014", "val2014", "annotations"):
        target = f"{name}_trainval2014" if name == "annotations" else name
        shutil.make_archive(str(archives / target), "zip", root, name)
    before = (root / TRAIN_JSON).read_bytes()
    (root / "train2014" / "000.jpg").unlink()
    (root / "train2014" / "001.jpg").write_bytes(b"my own")
    (root / TRAIN_JSON).rename(root / "mine.json")
    for _ in range(2):  # what a missing json hides comes second
        for item in check_data("coco", root, any_size=True):
            if item.remedy:
                run_remedy(item.remedy, archives)
    assert (root / TRAIN_JSON).read_bytes() == before
    assert (root / "train2014" / "001.jpg").read_bytes() == b"my own"
    assert statuses(check_data("coco", root, any_size=True)) == {"OK"}


@pytest.fixture
def imagenet(tmp_path):
    return write_imagenet(tmp_path / "image net")


@pytest.fixture
def archives(imagenet, tmp_path):
    """ILSVRC2012_img_train.tar, which holds an archive for each class."""
    folder = tmp_path / "archives"
    (folder / "classes").mkdir(parents=True)
    for path in (imagenet / "train").iterdir():
        shell(f"tar -cf {folder}/classes/{path.name}.tar -C '{path}' .")
    shell(f"tar -cf {folder}/ILSVRC2012_img_train.tar -C {folder}/classes .")
    return folder


def test_folders_and_images_are_counted(imagenet, tmp_path, monkeypatch):
    (tmp_path / "train").mkdir()
    assert statuses(check_data("imagenet", tmp_path, any_size=True)) == {"WRONG"}
    (imagenet / "train" / "n01440764" / "notes.txt").write_text("no image")
    (imagenet / "train" / "lists").mkdir()
    found = by_name(check_data("imagenet", imagenet, any_size=True))
    assert found["train/: folders"].detail == "2 folders"
    assert found["train/: images"].detail == "4 images"
    assert statuses(found.values()) == {"OK"}
    found = by_name(check_data("imagenet", imagenet))
    assert "2 of 1,000 folders" in found["train/: folders"].detail
    assert "4 of 1,281,167 images" in found["train/: images"].detail
    monkeypatch.setattr(data_sets, "IMAGENET_CLASSES", 2)
    monkeypatch.setattr(data_sets, "IMAGENET_IMAGES", 4)
    assert statuses(check_data("imagenet", imagenet)) == {"OK"}


@pytest.mark.parametrize("from_nothing", [True, False])
def test_the_printed_commands_unpack_what_is_not_unpacked(imagenet, archives, from_nothing):
    shutil.rmtree(imagenet)
    if not from_nothing:
        shutil.copytree(archives / "classes", imagenet / "train")
    found = check_data("imagenet", imagenet, any_size=True)[0]
    assert found.status == "MISSING"
    assert found.detail.startswith("2 archives n*.tar and 0 folders") is not from_nothing
    assert ("needs an account" in found.remedy) is from_nothing
    run_remedy(found.remedy, archives)
    assert statuses(check_data("imagenet", imagenet, any_size=True)) == {"OK"}
