"""Each layout of labels, as its own tool writes it."""

import shutil
from functools import partial
from pathlib import Path

import pytest
from helpers.datasets.labelled_folders import (
    box_of,
    images_of,
    write_class_folders,
    write_coco,
    write_flat,
    write_image,
    write_listed,
    write_mask,
    write_masks,
    write_voc,
    write_yolo,
)
from pycocotools.coco import COCO

from mmssprl.datasets.labels import find_labels
from mmssprl.datasets.labels.split_names import split_of
from mmssprl.finetuning.label_files import write_labels
from mmssprl.probing import find_probe_data

write_polygons = partial(write_yolo, polygons=True)


def names(images, root):
    return [image.path.removeprefix(f"{root}/") for image in images]


@pytest.mark.parametrize(
    ("write", "layout", "classes", "name", "last"),
    [
        (write_coco, "COCO", ["square", "disc"], "cam 0/Shot-02.v1.PNG", "cam 1/Shot-23.v1.PNG"),
        (write_voc, "PASCAL VOC", ["disc", "square"], "img_002.jpg", "JPEGImages/img_023.jpg"),
        (write_yolo, "YOLO", ["disc", "square"], "/2.jpg", "images/val/23.jpg"),
        (write_polygons, "YOLO", ["disc", "square"], "/2.jpg", "images/val/23.jpg"),
    ],
)
class TestLayoutsOfObjects:
    def test_own_splits(self, tmp_path, write, layout, classes, name, last):
        data = find_labels(write(tmp_path), "detect")
        assert (data.layout, data.classes) == (layout, classes)  # COCO's by id
        assert data.split == "the data's own train and val"
        assert [len(data.train), len(data.val)] == [16, 8]
        assert data.val[-1].path.endswith(last)

    def test_objects(self, tmp_path, write, layout, classes, name, last):
        data = find_labels(write(tmp_path), "detect")
        [image] = [image for image in data.train if image.path.endswith(name)]
        assert image.size == (48, 40)
        assert [classes[thing.label] for thing in image.objects] == ["disc", "square"]
        boxes = [pytest.approx(thing.box) for thing in image.objects]
        assert boxes == [box_of(2, 0), box_of(2, 1)]
        assert data.has_masks == (write in (write_coco, write_polygons))
        assert not data.is_single_label


class TestCoco:
    def test_one_file_is_split_by_the_seed(self, tmp_path):
        listed = [f"{i}.png" for i in range(15)]
        write_listed(tmp_path, [f"raw/{name}" for name in listed], listed)
        data = find_labels(tmp_path, "classify", val_share=0.4, seed=1)
        assert [len(data.train), len(data.val)] == [9, 6]
        assert data.split == "40% of 15 images held out, seed 1"
        found = names(images_of(data), tmp_path)
        assert sorted(found) == sorted(f"raw/{name}" for name in listed)
        assert find_labels(tmp_path, "classify", val_share=0.4, seed=1) == data
        assert find_labels(tmp_path, "classify", val_share=0.4, seed=2).val != data.val

    def test_equal_file_names_in_two_splits(self, tmp_path):
        listed = [f"{i}.jpg" for i in range(6)]
        for split, start in (("train2014", 0), ("val2014", 6)):
            images = [f"{split}/{name}" for name in listed]
            write_listed(tmp_path, images, listed, start, f"annotations/instances_{split}.json")
        data = find_labels(tmp_path, "classify")
        assert names(data.train, tmp_path)[0] == "train2014/0.jpg"
        assert names(data.val, tmp_path)[0] == "val2014/0.jpg"


class TestMasks:
    @pytest.mark.parametrize(
        ("names", "titles", "shown"),
        [
            (("Background", "disc", "square"), ("disc", "square"), {1}),
            (("disc", "square", "sky"), ("disc", "square", "sky"), {0, 2}),
        ],
    )
    def test_classify_has_no_class_for_the_background(self, tmp_path, names, titles, shown):
        data = find_labels(write_masks(tmp_path, classes=names), "classify")
        assert data.classes == [*titles]
        # Image 1 shows a square, of index 2, on the background.
        assert data.train[1].labels == shown
        assert [thing.label for thing in data.train[1].objects] == sorted(shown)
        assert data.train[1].mask is None

    def test_segment_has_every_class(self, tmp_path):
        names = ("Background", "disc", "square")
        data = find_labels(write_masks(tmp_path, classes=names), "segment")
        assert (data.classes, data.train[1].labels) == ([*names], {0, 2})
        assert [len(data.train), len(data.val)] == [16, 8]
        assert data.train[1].mask.endswith("masks/train/1.png")

    def test_vocs_folders_with_its_names(self, tmp_path):
        write_voc(tmp_path)
        for i in range(24):
            write_mask(tmp_path / "SegmentationClass" / f"img_{i:03d}.png", i)
        sets = tmp_path / "ImageSets"
        shutil.copytree(sets / "Main", sets / "Segmentation")

        # "disc" is none of VOC's classes, so the label images have others, too.
        data = find_labels(tmp_path, "segment")
        assert data.classes == ["class 0", "class 1", "class 2"]
        assert "classes.txt" in data.warnings[0]

        for path in (tmp_path / "Annotations").iterdir():
            path.write_text(path.read_text().replace("disc", "cat").replace("square", "dog"))
        data = find_labels(tmp_path, "segment")
        assert (len(data.classes), data.classes[15]) == (21, "person")
        assert [len(data.train), len(data.val)] == [16, 8]
        assert data.train[2].labels == {0, 1, 2}

    def test_label_images_with_a_suffix_below_their_images(self, tmp_path):
        for i in range(5):
            write_image(tmp_path / "photo" / f"{i}.jpg", i)
            write_mask(tmp_path / "photo" / "labels" / f"{i}_mask.png", i)
        data = find_labels(tmp_path, "segment")
        assert [len(data.train), len(data.val)] == [4, 1]
        assert "val has 1 image:" in data.warnings[-1]


class TestClassFolders:
    def test_a_fifth_of_each_class_is_held_out(self, tmp_path):
        data = find_labels(write_class_folders(tmp_path, per_class=15), "classify")
        assert (data.layout, data.classes) == ("a folder per class", ["disc", "square"])
        assert data.is_single_label
        assert data.split == "20% of each class of 30 images held out, seed 0"
        assert (data.count(data.train), data.count(data.val)) == ([12, 12], [3, 3])

    def test_shares_of_train_are_per_class(self, tmp_path):
        root = write_class_folders(tmp_path, per_class=15)
        whole = find_labels(root, "classify")
        half = find_labels(root, "classify", train_share=0.5)
        few = find_labels(root, "classify", train_share=0.01)
        assert [half.count(half.train), few.count(few.train)] == [[6, 6], [1, 1]]
        assert "50 % of 24 are trained on, drawn by seed 0" in half.describe()
        assert {*names(few.train, root)} < {*names(half.train, root)} < {*names(whole.train, root)}
        assert half.val == whole.val

    def test_a_class_may_be_called_mask(self, tmp_path):
        root = write_class_folders(tmp_path)
        (root / "disc").rename(root / "mask")  # as a folder of masks may be called
        assert find_labels(root, "classify").classes == ["mask", "square"]

    def test_own_splits(self, tmp_path):
        write_class_folders(tmp_path / "training", per_class=6)
        write_class_folders(tmp_path / "Test", per_class=3)
        data = find_labels(tmp_path, "classify")
        assert (data.classes, data.split) == (["disc", "square"], "the data's own train and test")
        assert [len(data.train), len(data.val)] == [12, 6]


@pytest.mark.parametrize("write", [write_coco, write_polygons])
def test_the_files_of_the_work_dir_hold_all_objects(tmp_path, write):
    data = find_labels(write(tmp_path / "data"), "detect")
    write_labels(data, tmp_path / "labels", "detect")
    written = COCO(str(tmp_path / "labels/val.json"))
    for number, image in enumerate(data.val, start=1):
        assert data.root / written.imgs[number]["file_name"] == Path(image.path)
        found = [
            (each["category_id"] - 1, tuple(each["bbox"]), each["segmentation"])
            for each in written.imgToAnns[number]
        ]
        assert found == [(each.label, each.box, each.segmentation) for each in image.objects]


def test_files_of_other_formats_are_ignored(tmp_path):
    (tmp_path / "captions.json").write_text('{"images": [], "annotations": []}')
    (tmp_path / "settings.xml").write_text("<settings/>")
    write_class_folders(tmp_path, per_class=4)
    assert find_labels(tmp_path, "classify").layout == "a folder per class"


def test_a_coco_file_comes_before_folders_of_classes(tmp_path):
    images = write_class_folders(tmp_path, per_class=4).rglob("*.jpeg")
    write_listed(tmp_path, (), [str(path.relative_to(tmp_path)) for path in images])
    assert find_labels(tmp_path, "classify").layout == "COCO"


def test_a_share_of_images_with_several_labels_is_drawn_by_the_seed(tmp_path):
    coco = write_coco(tmp_path)
    one, other = (find_labels(coco, "classify", train_share=0.25, seed=seed) for seed in (1, 2))
    assert len(one.train) == len(other.train) == 4
    assert {*names(one.train, coco)} != {*names(other.train, coco)}
    assert one.val == other.val


class TestDataGivenByAFile:
    def test_coco(self, tmp_path):
        root = write_flat(tmp_path / "data")
        expected = find_labels(root, "detect")
        shutil.copy(root / "all.json", root / "second.json")
        write_yolo(root / "next")
        assert images_of(find_labels(root / "second.json", "detect")) == images_of(expected)
        assert find_probe_data(root / "second.json").labelled.root == root
        (root / "annotations").mkdir()
        (root / "second.json").rename(root / "annotations/second.json")
        data = find_labels(root / "annotations/second.json", "detect")
        assert images_of(data) == images_of(expected)

    @pytest.mark.parametrize(
        ("path", "folder"),
        [("", "data"), ("path: .", "data"), ("path: /gone", "data"), ("path: '../data'", "other")],
    )
    def test_yolo(self, tmp_path, path, folder):
        root = write_yolo(tmp_path / "data")
        write_flat(root / "more")
        (root / "data.yaml").write_text("names: [a, b, c]\n")
        file = tmp_path / folder / "own.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"{path}\nnames: [disc, square]\ntrain: images/train\nval: images/val\n")
        data = find_labels(file, "detect")
        assert (data.root, data.classes) == (root, ["disc", "square"])


@pytest.mark.parametrize(
    ("name", "split"),
    [("train", "train"), ("train2014", "train"), ("Valid", "val"), ("images/test", "test")]
    + [("train_station", None), ("test_tube", None), ("my_training_set", None), ("val_7", "val")]
    + [("train/images", "train"), ("testing/train_station", "test"), ("", None)],
)
def test_folders_are_splits_by_their_whole_name(name, split):
    assert split_of(name) == split


@pytest.mark.parametrize("folder", ["photos", "labels"])
def test_texts_next_to_the_images_with_classes_txt(tmp_path, folder):
    for i in range(10):
        write_image(tmp_path / folder / f"{i}.jpg", i)
        (tmp_path / folder / f"{i}.txt").write_text(f"{i % 2} 0.5 0.5 0.2 0.2\n")
    (tmp_path / "classes.txt").write_text("disc\nsquare\n")
    data = find_labels(tmp_path, "classify")
    assert (data.layout, data.classes) == ("YOLO", ["disc", "square"])
    assert [len(data.train), len(data.val)] == [8, 2]

    (tmp_path / "classes.txt").unlink()
    data = find_labels(tmp_path, "classify")
    assert data.classes == ["class 0", "class 1"]
    assert "have no names" in data.warnings[0]


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("labels/train/_darknet.labels", ""),
        ("fruit.names", "classes = 2\nnames = data/fruit.names"),
        ("fruit.names", "classes = 2\nnames = data\\fruit.names"),
        ("labels/fruit.txt", "classes = 2\nnames = data/labels/Fruit.txt"),
    ],
)
def test_lists_of_classes_of_darknet(tmp_path, name, setting):
    root = write_yolo(tmp_path)
    (root / "data.yaml").unlink()
    (root / "obj.data").write_text(setting)
    (root / name).write_text("apple\npear\n")
    assert find_labels(root, "detect").classes == ["apple", "pear"]


def test_lists_of_images(tmp_path):
    root = write_yolo(tmp_path)
    (root / "train.txt").write_text("".join(f"data/images/train/{i}.jpg\n" for i in range(12)))
    (root / "val.txt").write_text("".join(f"./images/val/{i}.jpg\n" for i in range(16, 24)))
    (root / "data.yaml").write_text("train: train.txt\nval: val.txt\nnames: [disc, square]\n")
    data = find_labels(root, "detect")
    assert [len(data.train), len(data.val)] == [12, 8]
    assert data.split.endswith("; 4 other images are not used")


def test_one_folder_for_both_splits_is_divided(tmp_path):
    root = write_yolo(tmp_path, num_val=0)
    (root / "data.yaml").write_text("train: images/train\nval: images/train\nnames: [a, b]\n")
    assert find_labels(root, "detect").split == "20% of 16 images held out, seed 0"


def test_captions_are_no_labels(tmp_path):
    for path in write_class_folders(tmp_path).rglob("*.jpeg"):
        path.with_suffix(".txt").write_text("a photograph of a disc\n")
    assert find_labels(tmp_path, "classify").layout == "a folder per class"


def test_many_images_without_an_object_come_first(tmp_path):
    root = write_yolo(tmp_path, num_train=4, num_val=4)
    for i in range(101):
        (root / "images" / "train" / f"-{i}.jpg").hardlink_to(root / "images/train/1.jpg")
        (root / "labels" / "train" / f"-{i}.txt").touch()
    assert find_labels(root, "detect").layout == "YOLO"
