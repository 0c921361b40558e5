import pytest
from helpers.preparation.prepare_folders import by_name, run_remedy, shell, statuses, write_voc07
from torchvision.datasets import SBDataset
from torchvision.datasets.imagenet import ARCHIVE_META
from torchvision.datasets.voc import DATASET_YEAR_DICT

from mmssprl.preparation import imagenet, voc07, voc12aug
from mmssprl.preparation.voc07 import CLASSES, check, find_year

LIST = "ImageSets/Main/trainval.txt"
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
    assert len(set(CLASSES)) == 20
    assert list(CLASSES) == sorted(CLASSES)


@pytest.mark.parametrize("sub", [".", "VOCdevkit", "VOCdevkit/VOC2007"])
def test_the_devkit_is_found_from_each_folder_and_before_it_is_made(tmp_path, sub):
    voc = tmp_path / "VOCdevkit" / "VOC2007"
    assert find_year(tmp_path / sub, "VOC2007") == voc
    write_voc07(voc)
    assert find_year(tmp_path / sub, "VOC2007") == voc


def test_lists_and_labels_are_counted(voc, monkeypatch):
    found = by_name(check(voc, any_size=True))
    assert statuses(found.values()) == {"OK"}
    assert found[LIST].detail == "3 images"
    assert found[LABELS].detail == "3 files, 3 labels, 3 more are difficult"
    found = by_name(check(voc))
    assert "3 of 5,011 images" in found[LIST].detail
    assert "2 of 4,952 images" in found["ImageSets/Main/test.txt"].detail
    monkeypatch.setattr(voc07, "SPLITS", {"trainval": 3, "test": 2})
    assert statuses(check(voc)) == {"OK"}


@pytest.mark.parametrize(
    ("file", "text", "name", "status", "detail"),
    [
        (LIST, None, LIST, "MISSING", "no "),
        (LIST, "01\n02\n03\n02\n", LIST, "WRONG", "named twice"),
        ("ImageSets/Main/cow_trainval.txt", None, LABELS, "MISSING", "first cow_trainval"),
        ("Annotations/02.xml", None, LABELS, "MISSING", "02.xml"),
        ("Annotations/02.xml", "<annotation>", LABELS, "WRONG", "02.xml: must be XML"),
        (
            "Annotations/02.xml",
            "<annotation><object><name>cup</name></object></annotation>",
            LABELS,
            "WRONG",
            "'cup'",
        ),
        ("JPEGImages/02.jpg", None, LABELS, "MISSING", "1 of 3"),
    ],
)
def test_each_fault_is_named_and_the_printed_commands_mend_it(
    voc, tmp_path, file, text, name, status, detail
):
    archives = tmp_path / "archives"
    archives.mkdir()
    for split in ("trainval", "test"):
        shell(f"tar -cf {archives}/VOC{split}_06-Nov-2007.tar -C {tmp_path} VOCdevkit")
    (voc / file).unlink()
    if text is not None:
        (voc / file).write_text(text)
    (voc / "JPEGImages" / "03.jpg").write_bytes(b"my own")
    found = by_name(check(voc, any_size=True))
    assert found[name].status == status
    assert detail in found[name].detail
    assert [item.name for item in found.values() if item.remedy] == [name]
    if status == "WRONG":  # it may be the user's own: the first printed line asks for it
        assert found[name].remedy.startswith("# move it away first\n")
        (voc / file).unlink()
    run_remedy(found[name].remedy, archives)
    assert statuses(check(voc, any_size=True)) == {"OK"}
    assert (voc / "JPEGImages" / "03.jpg").read_bytes() == b"my own"
