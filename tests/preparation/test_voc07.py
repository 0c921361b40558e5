import shutil
from pathlib import Path

import pytest
from prepare_folders import by_name, cut_off, run_remedy, shell, statuses, write_voc07
from torchvision.datasets import SBDataset
from torchvision.datasets.imagenet import ARCHIVE_META
from torchvision.datasets.voc import DATASET_YEAR_DICT

from mmssprl.preparation import imagenet, voc07, voc12aug
from mmssprl.preparation.voc import CLASSES, find_year
from mmssprl.preparation.voc07 import check

VOC128 = Path(__file__).resolve().parents[3] / "shared" / "data" / "voc128"
LABELS = "trainval: labels and images"


@pytest.fixture
def voc(tmp_path):
    return write_voc07(tmp_path / "VOCdevkit" / "VOC2007")


def test_archives_are_those_that_torchvision_fetches():
    assert {
        (archive.url, archive.member) for archive in (*voc07._ARCHIVES.values(), voc12aug._VOC)
    } == {
        (DATASET_YEAR_DICT[year]["url"], f"VOCdevkit/VOC{year[:4]}")
        for year in ("2007", "2007-test", "2012")
    }
    assert voc12aug._SBD.url == SBDataset.url
    assert imagenet._TRAIN.url == ARCHIVE_META["train"][0]


def test_the_classes_are_vocs():
    assert len(set(CLASSES)) == 20
    assert list(CLASSES) == sorted(CLASSES)
    assert (CLASSES[0], CLASSES[14], CLASSES[19]) == ("aeroplane", "person", "tvmonitor")


@pytest.mark.parametrize("sub", [".", "VOCdevkit", "VOCdevkit/VOC2007"])
def test_the_devkit_is_found_from_each_folder(voc, tmp_path, sub):
    assert find_year(tmp_path / sub, "VOC2007") == voc


@pytest.mark.parametrize("sub", [".", "VOCdevkit", "VOCdevkit/VOC2007"])
def test_where_the_devkit_would_be(tmp_path, sub):
    assert find_year(tmp_path / sub, "VOC2007") == tmp_path / "VOCdevkit" / "VOC2007"


def test_a_complete_folder(voc):
    found = check(voc, any_size=True)
    assert statuses(found) == {"OK"}
    found = by_name(found)
    assert found["ImageSets/Main/trainval.txt"].detail == "3 images"
    assert found[LABELS].detail == "3 files, 3 labels, 3 more are difficult"
    assert found["trainval: sample"].detail == "3 of 3 files are right"


def test_the_official_numbers_are_wanted_unless_any_size(voc, monkeypatch):
    found = by_name(check(voc))
    assert found["ImageSets/Main/trainval.txt"].detail == (
        "not the official set: 3 of 5,011 images"
    )
    assert found["ImageSets/Main/test.txt"].detail == "not the official set: 2 of 4,952 images"
    assert {item.status for item in found.values()} == {"OK", "WRONG"}
    monkeypatch.setattr(voc07, "SPLITS", {"trainval": 3, "test": 2})
    assert statuses(check(voc)) == {"OK"}


def spoil(voc, what):
    main, xml = voc / "ImageSets/Main", voc / "Annotations" / "02.xml"
    if what == "no list":
        (main / "trainval.txt").unlink()
    elif what == "image twice":
        (main / "trainval.txt").write_text("01\n02\n03\n02\n")
    elif what == "no labels":
        (main / "cow_trainval.txt").unlink()
        (main / "sofa_trainval.txt").unlink()
    elif what == "no xml":
        xml.unlink()
    elif what == "broken xml":
        xml.write_text("<annotation>")
    elif what == "another class":
        xml.write_text("<annotation><object><name>cup</name></object></annotation>")
    elif what == "no image":
        (voc / "JPEGImages" / "02.jpg").unlink()
    elif what == "broken image":
        cut_off(voc / "JPEGImages" / "02.jpg")


@pytest.mark.parametrize(
    ("what", "name", "status", "detail"),
    [
        ("no list", "ImageSets/Main/trainval.txt", "MISSING", "no "),
        ("image twice", "ImageSets/Main/trainval.txt", "WRONG", "some images are named twice"),
        ("no labels", LABELS, "MISSING", "2 lists of classes are not there, first cow_trainval"),
        ("no xml", LABELS, "MISSING", "02.xml"),
        ("broken xml", LABELS, "WRONG", "02.xml: must be XML, but no element found"),
        ("another class", LABELS, "WRONG", "but got 'cup'"),
        ("no image", LABELS, "MISSING", "1 of 3 do not, for example"),
        ("broken image", "trainval: sample", "WRONG", "1 of 3 sampled files are bad, first 02."),
    ],
)
def test_each_fault_is_named_and_the_printed_commands_mend_it(
    voc, tmp_path, what, name, status, detail
):
    for split in ("trainval", "test"):
        file = tmp_path / "archives" / f"VOC{split}_06-Nov-2007.tar"
        file.parent.mkdir(exist_ok=True)
        shell(f"tar -cf {file} -C {tmp_path} VOCdevkit")
    spoil(voc, what)
    found = by_name(check(voc, any_size=True))
    assert found[name].status == status
    assert detail in found[name].detail
    assert [item.name for item in found.values() if item.remedy] == [name]
    if what == "image twice":  # the list may be the user's own: the first printed line asks for it
        assert found[name].remedy.startswith("# move it away first\n")
        (voc / name).unlink()
    run_remedy(found[name].remedy, tmp_path / "archives")
    assert statuses(check(voc, any_size=True)) == {"OK"}


def test_nothing_is_replaced_where_files_are_only_missing(voc, tmp_path):
    for split in ("trainval", "test"):
        file = tmp_path / "archives" / f"VOC{split}_06-Nov-2007.tar"
        file.parent.mkdir(exist_ok=True)
        shell(f"tar -cf {file} -C {tmp_path} VOCdevkit")
    (voc / "Annotations" / "01.xml").unlink()
    (voc / "JPEGImages" / "03.jpg").write_bytes(b"my own")
    found = by_name(check(voc, any_size=True))
    run_remedy(found[LABELS].remedy, tmp_path / "archives")
    assert (voc / "Annotations" / "01.xml").is_file()
    assert (voc / "JPEGImages" / "03.jpg").read_bytes() == b"my own"


def test_the_printed_commands_start_from_nothing(voc, tmp_path):
    archives = tmp_path / "archives"
    archives.mkdir()
    for split in ("trainval", "test"):
        shell(f"tar -cf {archives}/VOC{split}_06-Nov-2007.tar -C {tmp_path} VOCdevkit")
    shutil.rmtree(tmp_path / "VOCdevkit")
    new = tmp_path / "a data's folder"
    for item in check(new, any_size=True):
        assert item.status == "MISSING"
        run_remedy(item.remedy, archives)
    assert statuses(check(new, any_size=True)) == {"OK"}
    assert (new / "VOCdevkit" / "VOC2007" / "JPEGImages" / "01.jpg").is_file()


@pytest.mark.skipif(not VOC128.is_dir(), reason=f"no {VOC128}")
def test_real_images():
    found = check(VOC128, any_size=True)
    assert statuses(found) == {"OK"}
    detail = by_name(found)["test: labels and images"].detail
    assert detail.startswith("100 files, ")
