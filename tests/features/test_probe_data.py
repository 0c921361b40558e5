import shutil

import pytest
from helpers.features.probe_folders import write_class_folders

from mmssprl.datasets.labels import find_labels
from mmssprl.features import find_probe_data as find


def test_coco_labels(coco):
    for name in ("captions_val2014", "instances_val2017"):  # beside the files of these images
        (coco / "annotations" / f"{name}.json").write_text("no JSON")
    data = find(coco)
    assert (data.labelled.layout, data.classes) == ("COCO", ["green", "red"])
    assert (data.train.name, data.test.name) == ("train", "val")
    assert data.test.labels.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]] * 3
    assert data.train.paths[1] == str(coco / "train2014" / "1.jpg")


@pytest.mark.parametrize("up", [0, 1, 2])
def test_voc_labels_with_difficult_objects_unknown(voc, tmp_path, up):
    root = [voc, voc.parent, tmp_path][up]
    if up == 2:
        voc.parent.rename(tmp_path / "VOCdevkit")
    data = find(root)
    assert (data.labelled.layout, data.classes) == ("PASCAL VOC", ["green", "red", "zebra"])
    assert data.test.labels.tolist() == [[0, -1, 0], [0, 1, 0], [1, 0, 0], [1, 1, 0]] * 3
    assert len(data.train.paths) == 24
    assert data.test.paths[0].endswith("JPEGImages/000024.jpg")


def test_of_several_years_of_voc_one_has_to_be_given(voc):
    shutil.copytree(voc, voc.parent / "VOC2012")
    with pytest.raises(ValueError, match="one year .* VOC2007/, VOC2012/"):
        find(voc.parent)
    assert len(find(voc).train.paths) == 24


def test_the_listed_images_of_voc_and_no_others_must_be_whole(voc):
    (voc / "Annotations" / "000003.xml").unlink()
    with pytest.raises(FileNotFoundError, match=r"annotations, .*'000003'"):
        find(voc)
    (voc / "JPEGImages" / "000002.jpg").unlink()
    path = voc / "ImageSets/Main/trainval.txt"
    path.write_text(path.read_text().replace("000002\n000003\n", ""))
    assert len(find(voc).train.paths) == 22


def test_the_draw_is_that_of_finetune_and_takes_one_of_two_images(tmp_path):
    data = find(write_class_folders(tmp_path / "few", count=2))
    assert (len(data.train.paths), len(data.test.paths)) == (2, 2)
    flowers = write_class_folders(tmp_path / "flowers")
    split = find_labels(flowers, "classify", seed=3)
    assert find(flowers, seed=3).test.paths == [image.path for image in split.val]


@pytest.mark.parametrize(
    ("train", "val"),
    [("train", "val"), ("training", "validation"), ("Train", "valid"), ("train", "test")],
)
def test_splits_are_no_classes_and_must_both_show_each_class(train, val, tmp_path):
    write_class_folders(tmp_path / train, count=4)
    write_class_folders(tmp_path / val, count=2)
    data = find(tmp_path)
    assert data.classes == ["green", "red"]
    assert data.train.labels.sum(dim=0).tolist() == [4, 4]
    assert [path.split("/")[-3] for path in data.test.paths[::2]] == [val] * 2
    (tmp_path / val / "red").rename(tmp_path / val / "crimson")
    with pytest.raises(ValueError, match=r"'crimson' in .* 0 and 2"):
        find(tmp_path)
