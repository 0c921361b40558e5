import shutil

import pytest
from helpers.preparation.prepare_folders import by_name, run_remedy, shell, statuses, write_imagenet

from mmssprl.datasets import UnlabeledImages
from mmssprl.preparation import check_data, data_sets


def check(root, **options):
    return check_data("imagenet", root, **options)


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


def test_folders_and_images_are_counted(root, monkeypatch):
    (root / "train" / "n01440764" / "notes.txt").write_text("no image")
    (root / "train" / "lists").mkdir()
    found = by_name(check(root, any_size=True))
    assert (found["train/: folders"].detail, found["train/: images"].detail) == (
        "2 folders",
        "4 images",
    )
    assert statuses(found.values()) == {"OK"}
    found = by_name(check(root))
    assert "2 of 1,000 folders" in found["train/: folders"].detail
    assert "4 of 1,281,167 images" in found["train/: images"].detail
    monkeypatch.setattr(data_sets, "IMAGENET_CLASSES", 2)
    monkeypatch.setattr(data_sets, "IMAGENET_IMAGES", 4)
    assert statuses(check(root)) == {"OK"}


def test_no_folders_are_wrong(tmp_path):
    (tmp_path / "train").mkdir()
    assert statuses(check(tmp_path, any_size=True)) == {"WRONG"}


def test_archives_that_are_not_unpacked(root, archives):
    shutil.rmtree(root / "train")
    shutil.copytree(archives / "classes", root / "train")
    found = check(root, any_size=True)[0]
    assert found.status == "MISSING"
    assert found.detail.startswith("2 archives n*.tar and 0 folders")
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
