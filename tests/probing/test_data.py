import shutil
from pathlib import Path

import pytest
from helpers.datasets.labelled_folders import write_class_folders

from mmssprl.datasets.labels import find_labels
from mmssprl.probing import find_probe_data as find


def test_voc_is_found_in_the_folder_of_its_year_or_above(voc):
    for root in (voc, voc.parent):
        assert find(root).test.paths[0].endswith("VOC2007/JPEGImages/000024.jpg")


def test_two_years_of_voc_are_refused(voc):
    shutil.copytree(voc, voc.parent / "VOC2012")
    with pytest.raises(ValueError, match="one year .* VOC2007/, VOC2012/"):
        find(voc.parent)
    assert len(find(voc).train.paths) == 24


def test_a_listed_image_of_voc_without_annotation_is_refused(voc):
    (voc / "Annotations" / "000003.xml").unlink()
    with pytest.raises(FileNotFoundError, match=r"annotations, .*'000003'"):
        find(voc)


def test_images_of_voc_that_are_not_listed_may_lack_a_file(voc):
    (voc / "Annotations" / "000003.xml").unlink()
    (voc / "JPEGImages" / "000002.jpg").unlink()
    path = voc / "ImageSets/Main/trainval.txt"
    path.write_text(path.read_text().replace("000002\n000003\n", ""))
    assert len(find(voc).train.paths) == 22


def test_the_draw_takes_one_of_two_images(tmp_path):
    data = find(write_class_folders(tmp_path, per_class=2))
    assert (len(data.train.paths), len(data.test.paths)) == (2, 2)


def test_the_draw_is_the_one_of_finetune(tmp_path):
    write_class_folders(tmp_path)
    split = find_labels(tmp_path, "classify", seed=3)
    assert find(tmp_path, seed=3).test.paths == [image.path for image in split.val]


@pytest.fixture
def splits(tmp_path):
    write_class_folders(tmp_path / "train", per_class=4)
    write_class_folders(tmp_path / "val", per_class=2)
    return tmp_path


def test_splits_of_the_folder_are_kept(splits):
    data = find(splits)
    assert data.train.labels.sum(dim=0).tolist() == [4, 4]
    assert {Path(path).relative_to(splits).parts[0] for path in data.test.paths} == {"val"}


def test_splits_must_both_show_each_class(splits):
    (splits / "val" / "square").rename(splits / "val" / "box")
    with pytest.raises(ValueError, match=r"'box' in .* 0 and 2"):
        find(splits)
