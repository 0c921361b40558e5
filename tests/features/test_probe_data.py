"""Labelled folders as what a probe fits and tests on; how each layout is read: datasets/labels."""

import shutil

import pytest
from helpers.features.probe_folders import write_class_folders

from mmssprl.datasets.labels import find_labels
from mmssprl.features import find_probe_data as find


def names(split, root):
    return [path.removeprefix(f"{root}/") for path in split.paths]


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
    root = voc
    if up == 2:
        (tmp_path / "devkit").rename(tmp_path / "VOCdevkit")
        root = tmp_path
    elif up == 1:
        root = voc.parent
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


class TestOneFolderPerClass:
    @pytest.fixture
    def flowers(self, tmp_path):
        return write_class_folders(tmp_path / "flowers")

    def test_a_fifth_of_each_class_is_tested_on_and_nothing_is_lost(self, flowers):
        (flowers / "empty").mkdir()  # no class
        data = find(flowers)
        train, test = names(data.train, flowers), names(data.test, flowers)
        assert not set(train) & set(test)
        wanted = [f"{name}/{i}.jpg" for name in ("green", "red") for i in (0, 2, 4, 6, 8)]
        wanted += [f"{name}/more/{i}.jpg" for name in ("green", "red") for i in (1, 3, 5, 7, 9)]
        assert sorted(train + test) == sorted(wanted)
        assert data.test.labels.tolist() == [[1, 0]] * 2 + [[0, 1]] * 2
        assert [path.split("/")[0] for path in test] == ["green"] * 2 + ["red"] * 2

    def test_the_draw_follows_the_seed_and_is_that_of_finetune(self, flowers):
        draws = {tuple(find(flowers, seed=seed).test.paths) for seed in range(5)}
        assert len(draws) > 1
        split = find_labels(flowers, "classify", seed=3)
        assert find(flowers, seed=3).test.paths == [image.path for image in split.val]

    def test_two_images_are_enough_and_one_is_not(self, tmp_path):
        root = write_class_folders(tmp_path / "a", count=2)
        data = find(root)
        assert (len(data.train.paths), len(data.test.paths)) == (2, 2)
        (root / "red" / "0.jpg").unlink()
        with pytest.raises(ValueError, match=r"'red' in .* 1 and 0"):
            find(root)


class TestFoldersTrainAndVal:
    @pytest.fixture
    def split(self, tmp_path):
        root = tmp_path / "split"
        write_class_folders(root / "train", count=4)
        write_class_folders(root / "val", count=2)
        return root

    @pytest.mark.parametrize(
        ("train", "val"),
        [("train", "val"), ("training", "validation"), ("Train", "valid"), ("train", "test")],
    )
    def test_are_no_classes_whatever_their_names(self, split, train, val):
        (split / "train").rename(split / train)
        (split / "val").rename(split / "renamed")
        (split / "renamed").rename(split / val)
        data = find(split)
        assert data.classes == ["green", "red"]
        assert data.train.labels.sum(dim=0).tolist() == [4, 4]
        assert names(data.test, split) == [
            f"{val}/{name}/{image}" for name in data.classes for image in ("0.jpg", "more/1.jpg")
        ]

    def test_must_both_show_each_class(self, split):
        (split / "val" / "red").rename(split / "val" / "crimson")
        with pytest.raises(ValueError, match=r"'crimson' in .* 0 and 2"):
            find(split)
