import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.preparation.prepare_folders import (
    ADDED,
    OWN,
    by_name,
    run_remedy,
    shell,
    statuses,
    write_png,
    write_voc07,
    write_voc12,
)
from PIL import Image
from torchvision.datasets import SBDataset
from torchvision.datasets.imagenet import ARCHIVE_META
from torchvision.datasets.voc import DATASET_YEAR_DICT

from mmssprl.preparation import check_data, data_sets
from mmssprl.preparation.data_sets import find_year

LIST = "ImageSets/Main/trainval.txt"
LABELS = "trainval: labels and images"
LIST_FILE = "ImageSets/Segmentation/train_aug.txt"
CUP = "<annotation><object><name>cup</name></object></annotation>"
SBD_PLACES = [
    "benchmark_RELEASE",
    "VOCdevkit/benchmark_RELEASE",
    "VOCdevkit/VOCaug/benchmark_RELEASE",
    "VOCdevkit/VOCaug",
]


@pytest.fixture
def voc(tmp_path):
    return write_voc12(tmp_path / "a folder" / "VOC2012")


def convert(voc):
    """Do what mmsegmentation's voc_aug.py does, which takes the official number of images alone."""
    for name, labels in ADDED.items():
        write_png(voc / "SegmentationClassAug" / f"{name}.png", labels, mode="L")
    (voc / "ImageSets/Segmentation/trainaug.txt").write_text("c\na\nd\nb\n")


def after_the_converter(remedy):
    """Return the commands behind mmsegmentation's."""
    lines = remedy.splitlines()
    return "\n".join(lines[next(i for i, line in enumerate(lines) if "voc_aug.py" in line) + 1 :])


@pytest.fixture
def made(voc):
    convert(voc)
    found = by_name(check_data("voc12aug", voc, any_size=True))
    shell(after_the_converter(found[LIST_FILE].remedy))
    return voc


def test_of_vocs_own_labels_and_sbds_the_printed_commands_make_train_aug(made, monkeypatch):
    assert (made / LIST_FILE).read_text() == "a\nb\nc\nd\n"
    labels = {
        path.stem: np.asarray(Image.open(path)).tolist()
        for path in (made / "SegmentationClassAug").iterdir()
    }
    assert labels == {**ADDED, **{name: OWN[name] for name in "ab"}}  # of val nothing is listed
    found = by_name(check_data("voc12aug", made, any_size=True))
    assert statuses(found.values()) == {"OK"}
    assert found[LIST_FILE].detail == "4 images"
    assert found["JPEGImages/"].detail == "all 5 files are there"
    found = by_name(check_data("voc12aug", made))
    assert "1 of 1,449 images" in found["ImageSets/Segmentation/val.txt"].detail
    assert "4 of 10,582 images" in found[LIST_FILE].detail
    monkeypatch.setattr(data_sets, "VOC12AUG_IMAGES", {"train": 2, "val": 1, "train_aug": 4})
    assert statuses(check_data("voc12aug", made)) == {"OK"}


@pytest.mark.parametrize("place", SBD_PLACES)
@pytest.mark.parametrize("given", [".", "VOCdevkit", "VOCdevkit/VOC2012"])
def test_sbd_is_found(tmp_path, monkeypatch, place, given):
    write_voc12(tmp_path / "VOCdevkit" / "VOC2012")
    (tmp_path / place / "dataset" / "cls").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / given)
    found = by_name(check_data("voc12aug", Path("."), any_size=True))[LIST_FILE]
    assert found.status == "MISSING"
    command = next(line for line in found.remedy.splitlines() if "voc_aug.py" in line)
    devkit, sbd = command.split()[-2:]
    assert Path(devkit) == tmp_path / "VOCdevkit"
    assert Path(sbd).resolve() == tmp_path / place
    assert "curl" not in found.remedy


@pytest.mark.full
def test_mmsegmentations_converter_is_where_the_command_says(voc):
    remedy = by_name(check_data("voc12aug", voc))[LIST_FILE].remedy
    command = next(line for line in remedy.splitlines() if "voc_aug.py" in line)
    python = shlex.quote(sys.executable)
    path = command.removeprefix("python ").partition("voc_aug.py")[0] + "voc_aug.py"
    path = path.replace("python -c", f"{python} -c")
    assert Path(shell(f"echo {path}").strip()).is_file()


@pytest.mark.parametrize(
    ("file", "name", "detail"),
    [
        ("SegmentationClass/v.png", "SegmentationClass/", "1 of 3"),
        ("JPEGImages/d.jpg", "JPEGImages/", "first d.jpg"),
        ("SegmentationClassAug/c.png", "SegmentationClassAug/", "first c.png"),
    ],
)
def test_each_missing_file_is_named(made, file, name, detail):
    (made / file).unlink()
    found = by_name(check_data("voc12aug", made, any_size=True))
    assert found[name].status == "MISSING"
    assert detail in found[name].detail
    assert found[name].remedy


def test_the_printed_commands_start_from_nothing(tmp_path):
    archives = tmp_path / "archives"
    archives.mkdir()
    write_voc12(tmp_path / "VOCdevkit" / "VOC2012")
    (tmp_path / "benchmark_RELEASE" / "dataset" / "cls").mkdir(parents=True)
    shell(f"tar -cf {archives}/VOCtrainval_11-May-2012.tar -C {tmp_path} VOCdevkit")
    shell(f"tar -czf {archives}/benchmark.tgz -C {tmp_path} benchmark_RELEASE")
    shutil.rmtree(tmp_path / "VOCdevkit")
    new = tmp_path / "new"
    found = check_data("voc12aug", new, any_size=True)
    assert statuses(found) == {"MISSING"}
    remedies = dict.fromkeys(item.remedy for item in found)
    for remedy in remedies:
        before, _, after = remedy.partition("\n# with VOC2012 complete")
        run_remedy(before, archives)
        if after:
            convert(new / "VOCdevkit" / "VOC2012")
            shell(after_the_converter(remedy))
    assert (new / "benchmark_RELEASE" / "dataset" / "cls").is_dir()
    assert statuses(check_data("voc12aug", new, any_size=True)) == {"OK"}


@pytest.fixture
def voc07(tmp_path):
    return write_voc07(tmp_path / "VOCdevkit" / "VOC2007")


def test_archives_are_those_that_torchvision_fetches():
    assert {(archive.url, archive.member) for archive in data_sets._VOC_ARCHIVES.values()} == {
        (DATASET_YEAR_DICT[year]["url"], f"VOCdevkit/VOC{year[:4]}")
        for year in ("2007", "2007-test", "2012")
    }
    assert data_sets._SBD.url == SBDataset.url
    assert data_sets._IMAGENET_TRAIN.url == ARCHIVE_META["train"][0]


@pytest.mark.parametrize("sub", [".", "VOCdevkit", "VOCdevkit/VOC2007"])
def test_the_devkit_is_found_from_each_folder_and_before_it_is_made(tmp_path, sub):
    voc = tmp_path / "VOCdevkit" / "VOC2007"
    assert find_year(tmp_path / sub, "VOC2007") == voc
    write_voc07(voc)
    assert find_year(tmp_path / sub, "VOC2007") == voc


def test_lists_and_labels_are_counted(voc07, monkeypatch):
    found = by_name(check_data("voc07", voc07, any_size=True))
    assert statuses(found.values()) == {"OK"}
    assert found[LIST].detail == "3 images"
    assert found[LABELS].detail == "20 classes in 3 images"
    found = by_name(check_data("voc07", voc07))
    assert "3 of 5,011 images" in found[LIST].detail
    assert "2 of 4,952 images" in found["ImageSets/Main/test.txt"].detail
    monkeypatch.setattr(data_sets, "VOC07_IMAGES", {"trainval": 3, "test": 2})
    assert statuses(check_data("voc07", voc07)) == {"OK"}


@pytest.mark.parametrize(
    ("file", "text", "name", "status", "detail"),
    [
        (LIST, None, LIST, "MISSING", "no "),
        ("Annotations/02.xml", None, LABELS, "MISSING", "02.xml"),
        ("Annotations/02.xml", "<annotation>", LABELS, "WRONG", "02.xml: must be XML"),
        ("Annotations/02.xml", CUP, LABELS, "WRONG", "'cup'"),
        ("JPEGImages/02.jpg", None, LABELS, "MISSING", "1 of 3"),
    ],
)
def test_each_fault_of_2007_is_named_and_the_printed_commands_mend_it(
    voc07, tmp_path, file, text, name, status, detail
):
    archives = tmp_path / "archives"
    archives.mkdir()
    for split in ("trainval", "test"):
        shell(f"tar -cf {archives}/VOC{split}_06-Nov-2007.tar -C {tmp_path} VOCdevkit")
    (voc07 / file).unlink()
    if text is not None:
        (voc07 / file).write_text(text)
    (voc07 / "JPEGImages" / "03.jpg").write_bytes(b"my own")
    found = by_name(check_data("voc07", voc07, any_size=True))
    assert found[name].status == status
    assert detail in found[name].detail
    assert [item.name for item in found.values() if item.remedy] == [name]
    if status == "WRONG":  # it may be the user's own: the first printed line asks for it
        assert found[name].remedy.startswith("# move it away first\n")
        (voc07 / file).unlink()
    run_remedy(found[name].remedy, archives)
    assert statuses(check_data("voc07", voc07, any_size=True)) == {"OK"}
    assert (voc07 / "JPEGImages" / "03.jpg").read_bytes() == b"my own"
