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
from mmssprl.datasets.labels.labelled_images import split_of
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
def test_splits_classes_and_boxes(tmp_path, write, layout, classes, name, last):
    data = find_labels(write(tmp_path), "detect")
    assert (data.layout, data.classes) == (layout, classes)  # COCO's by id
    assert data.split == "the data's own train and val"
    assert [len(data.train), len(data.val)] == [16, 8]
    assert data.val[-1].path.endswith(last)
    [image] = [image for image in data.train if image.path.endswith(name)]
    assert [classes[thing.label] for thing in image.objects] == ["disc", "square"]
    boxes = [pytest.approx(thing.box) for thing in image.objects]
    assert boxes == [box_of(2, 0), box_of(2, 1)]
    assert image.size == (48, 40)
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
    @pytest.mark.parametrize("names", [("Background", "disc", "square"), ("disc", "square", "sky")])
    def test_classify_has_no_class_for_the_background(self, tmp_path, names):
        data = find_labels(write_masks(tmp_path, classes=names), "classify")
        has_background = names[0] == "Background"
        assert data.classes == list(names)[has_background:]
        # Image 1 shows a square, of index 2, on the background.
        assert data.train[1].labels == ({1} if has_background else {0, 2})
        assert [thing.label for thing in data.train[1].objects] == sorted(data.train[1].labels)
        assert data.train[1].mask is None
        data = find_labels(tmp_path, "segment")
        assert (data.classes, data.train[1].labels) == (list(names), {0, 2})
        assert [len(data.train), len(data.val)] == [16, 8]
        assert data.train[1].mask.endswith("masks/train/1.png")

    def test_vocs_folders_with_its_names(self, tmp_path):
        write_voc(tmp_path)
        for i in range(24):
            write_mask(tmp_path / "SegmentationClass" / f"img_{i:03d}.png", i)
        sets = tmp_path / "ImageSets"
        shutil.copytree(sets / "Main", sets / "Segmentation")
        # "disc" is none of VOC's classes, so neither are those of the label images.
        data = find_labels(tmp_path, "segment")
        assert data.classes == ["class 0", "class 1", "class 2"]
        assert "classes.txt" in data.warnings[0]
        for path in (tmp_path / "Annotations").iterdir():
            path.write_text(path.read_text().replace("disc", "cat").replace("square", "dog"))
        data = find_labels(tmp_path, "segment")
        assert (len(data.classes), data.classes[15]) == (21, "person")
        assert [len(data.train), len(data.val)] == [16, 8]
        assert data.train[2].labels == {0, 1, 2}

    def test_suffixes_and_one_folder(self, tmp_path):
        for i in range(5):
            write_image(tmp_path / "photo" / f"{i}.jpg", i)
            write_mask(tmp_path / "photo" / "labels" / f"{i}_mask.png", i)
        data = find_labels(tmp_path, "segment")
        assert [len(data.train), len(data.val)] == [4, 1]
        assert "val has 1 image:" in data.warnings[-1]


class TestClassFolders:
    def test_shares_are_per_class_and_part_of_larger_ones(self, tmp_path):
        root = write_class_folders(tmp_path, per_class=15)
        whole = find_labels(root, "classify")
        assert (whole.layout, whole.classes) == ("a folder per class", ["disc", "square"])
        assert whole.is_single_label
        assert whole.split == "20% of each class of 30 images held out, seed 0"
        half, tenth = (find_labels(root, "classify", train_share=share) for share in (0.5, 0.01))
        counts = [data.count(data.train) for data in (whole, half, tenth)]
        assert counts == [[12, 12], [6, 6], [1, 1]]
        few, more, everything = (set(names(data.train, root)) for data in (tenth, half, whole))
        assert few < more < everything
        assert half.val == whole.val
        assert whole.count(whole.val) == [3, 3]
        assert "50 % of 24 are trained on, drawn by seed 0" in half.describe()
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


def test_coco_files_come_before_folders_and_other_files_are_ignored(tmp_path):
    (tmp_path / "captions.json").write_text('{"images": [], "annotations": []}')
    (tmp_path / "settings.xml").write_text("<settings/>")
    images = write_class_folders(tmp_path, per_class=4).rglob("*.jpeg")
    assert find_labels(tmp_path, "classify").layout == "a folder per class"
    write_listed(tmp_path, (), [str(path.relative_to(tmp_path)) for path in images])
    assert find_labels(tmp_path, "classify").layout == "COCO"


def test_train_share_of_several_labels_is_of_all_images_and_drawn_by_the_seed(tmp_path):
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
        write_yolo(root / "beside")
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
