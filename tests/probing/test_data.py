import shutil
from pathlib import Path

import pytest
from helpers.datasets.labelled_folders import write_class_folders

from mmssprl.datasets.labels import find_labels
from mmssprl.probing import find_probe_data as find


def test_one_year_of_voc_is_given_whose_listed_images_and_no_others_must_be_whole(voc):
    for root in (voc, voc.parent):
        assert find(root).test.paths[0].endswith("VOC2007/JPEGImages/000024.jpg")
    shutil.copytree(voc, voc.parent / "VOC2012")
    with pytest.raises(ValueError, match="one year .* VOC2007/, VOC2012/"):
        find(voc.parent)
    assert len(find(voc).train.paths) == 24
    (voc / "Annotations" / "000003.xml").unlink()
    with pytest.raises(FileNotFoundError, match=r"annotations, .*'000003'"):
        find(voc)
    (voc / "JPEGImages" / "000002.jpg").unlink()
    path = voc / "ImageSets/Main/trainval.txt"
    path.write_text(path.read_text().replace("000002\n000003\n", ""))
    assert len(find(voc).train.paths) == 22


def test_the_draw_is_that_of_finetune_and_takes_one_of_two_images(tmp_path):
    data = find(write_class_folders(tmp_path / "few", per_class=2))
    assert (len(data.train.paths), len(data.test.paths)) == (2, 2)
    flowers = write_class_folders(tmp_path / "flowers")
    split = find_labels(flowers, "classify", seed=3)
    assert find(flowers, seed=3).test.paths == [image.path for image in split.val]


def test_splits_must_both_show_each_class(tmp_path):
    write_class_folders(tmp_path / "train", per_class=4)
    write_class_folders(tmp_path / "val", per_class=2)
    data = find(tmp_path)
    assert data.train.labels.sum(dim=0).tolist() == [4, 4]
    assert {Path(path).relative_to(tmp_path).parts[0] for path in data.test.paths} == {"val"}
    (tmp_path / "val" / "square").rename(tmp_path / "val" / "box")
    with pytest.raises(ValueError, match=r"'box' in .* 0 and 2"):
        find(tmp_path)
