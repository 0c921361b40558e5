import shutil

import pytest
from prepare_folders import (
    by_name,
    cut_off,
    run_remedy,
    shell,
    statuses,
    write_imagenet,
)

from mmssprl.datasets import UnlabeledImages
from mmssprl.preparation import imagenet
from mmssprl.preparation.imagenet import check


@pytest.fixture
def root(tmp_path):
    return write_imagenet(tmp_path / "image net")


@pytest.fixture
def archives(root, tmp_path):
    """ILSVRC2012_img_train.tar, which holds an archive for each class."""
    folder = tmp_path / "archives"
    (folder / "classes").mkdir(parents=True)
    for path in (root / "train").iterdir():
        shell(f"tar -cf {folder}/classes/{path.name}.tar -C '{path}' .")
    shell(f"tar -cf {folder}/ILSVRC2012_img_train.tar -C {folder}/classes .")
    return folder


def test_a_complete_train_folder(root):
    (root / "train" / "n01440764" / "notes.txt").write_text("no image")
    (root / "train" / "lists").mkdir()
    found = check(root, any_size=True)
    assert statuses(found) == {"OK"}
    found = by_name(found)
    assert found["train/: folders"].detail == "2 folders"
    assert found["train/: images"].detail == "4 images"
    assert found["train: sample"].detail == "4 of 4 files are right"


def test_the_official_numbers_are_wanted_unless_any_size(root, monkeypatch):
    found = by_name(check(root))
    assert found["train/: folders"].detail == "not the official set: 2 of 1,000 folders"
    assert found["train/: images"].detail == "not the official set: 4 of 1,281,167 images"
    monkeypatch.setattr(imagenet, "NUM_CLASSES", 2)
    monkeypatch.setattr(imagenet, "NUM_TRAIN", 4)
    assert statuses(check(root)) == {"OK"}


def test_an_empty_class(root):
    (root / "train" / "n03000000").mkdir()
    found = by_name(check(root, any_size=True))
    assert found["train/: empty folders"].status == "WRONG"
    assert found["train/: empty folders"].detail == "1 folders without an image, first n03000000"


def test_without_images(tmp_path):
    (tmp_path / "train").mkdir()
    found = check(tmp_path, any_size=True)
    assert [item.status for item in found] == ["WRONG", "WRONG"]


def test_archives_that_are_not_unpacked(root, archives):
    shutil.rmtree(root / "train")
    shutil.copytree(archives / "classes", root / "train")
    found = check(root, any_size=True)[0]
    assert (found.status, found.detail) == (
        "MISSING",
        "2 archives n*.tar and 0 folders: not unpacked, or not removed since; pre-training reads "
        "either, not both",
    )
    before = list(UnlabeledImages(str(root / "train")))
    run_remedy(found.remedy, archives)
    assert statuses(check(root, any_size=True)) == {"OK"}
    after = list(UnlabeledImages(str(root / "train")))
    assert [item["img_path"] for item in after] == [item["img_path"] for item in before]
    assert all((a["img"] == b["img"]).all() for a, b in zip(after, before, strict=True))


def test_the_printed_commands_start_from_nothing(root, archives):
    shutil.rmtree(root)
    found = check(root, any_size=True)[0]
    assert found.status == "MISSING"
    assert "needs an account" in found.remedy
    run_remedy(found.remedy, archives)
    assert statuses(check(root, any_size=True)) == {"OK"}


def test_a_damaged_image_is_replaced_by_the_printed_commands(root, archives):
    cut_off(root / "train" / "n02102040" / "n02102040_1.JPEG")
    found = by_name(check(root, any_size=True))["train: sample"]
    assert found.status == "WRONG"
    assert "first n02102040/n02102040_1.JPEG: it cannot be decoded" in found.detail
    run_remedy(found.remedy, archives)
    assert statuses(check(root, any_size=True)) == {"OK"}
