"""Folders as other tools and other people leave them."""

import json

import pytest
from helpers.datasets.labelled_folders import (
    coco_content,
    write_image,
    write_voc,
    write_xml,
    write_yolo,
)

from mmssprl.datasets.labels import find_labels


def names_of(data):
    return sorted(image.path.removeprefix(f"{data.root}/") for image in (*data.train, *data.val))


def refused(root, task, match):
    with pytest.raises((ValueError, FileNotFoundError), match=match) as caught:
        find_labels(root, task)
    assert "\n" not in str(caught.value)


class TestImagesInFoldersNamedLikeOnesOfMasks:
    @pytest.mark.parametrize("folder", ["mask", "labels", "annotations", "gt"])
    def test_coco(self, tmp_path, folder):
        names = [f"{kind}/{i}.jpg" for i in range(6) for kind in (folder, f"no{folder}")]
        for i, name in enumerate(names):
            write_image(tmp_path / name, i)
        (tmp_path / "all.json").write_text(json.dumps(coco_content(names)))
        assert names_of(find_labels(tmp_path, "detect")) == sorted(names)

    def test_a_photograph_is_meant_by_a_name_without_folders(self, tmp_path):
        for i in range(6):
            write_image(tmp_path / "images" / f"{i}.png", i)
            write_image(tmp_path / "masks" / f"{i}.png", i)
        content = coco_content([f"{i}.png" for i in range(6)])
        (tmp_path / "masks.json").write_text(json.dumps(content))
        assert names_of(find_labels(tmp_path, "detect"))[0] == "images/0.png"

    def test_yolo(self, tmp_path):
        for i in range(6):
            write_image(tmp_path / "labels" / f"{i}.jpg", i)
            (tmp_path / "labels" / f"{i}.txt").write_text(f"{i % 2} 0.5 0.5 0.2 0.2\n")
        data = find_labels(tmp_path, "detect")
        assert (data.layout, len(names_of(data)), data.num_boxes) == ("YOLO", 6, 6)

    def test_voc(self, tmp_path):
        for i in range(6):
            write_image(tmp_path / "annotations" / f"{i}.jpg", i)
            write_xml(tmp_path / "annotations" / f"{i}.xml", i)
        data = find_labels(tmp_path, "detect")
        assert (data.layout, len(names_of(data))) == ("PASCAL VOC", 6)

    def test_voc_whose_masks_have_the_name_that_is_told(self, tmp_path):
        root = write_voc(tmp_path)
        for i in range(24):
            write_image(root / "SegmentationClass" / f"img_{i:03d}.png", i)
            write_xml(root / "Annotations" / f"img_{i:03d}.xml", i, f"img_{i:03d}.png")
        assert names_of(find_labels(root, "detect"))[0] == "JPEGImages/img_000.jpg"


class TestYolo:
    def test_labelimg_writes_the_classes_among_the_labels(self, tmp_path):
        root = write_yolo(tmp_path)
        (root / "data.yaml").unlink()
        (root / "labels" / "classes.txt").write_text("disc\nsquare\n\n")
        assert find_labels(root, "detect").classes == ["disc", "square"]
        (root / "labels" / "classes.txt").write_text("disc\n\nsquare\n")
        refused(root, "detect", "labels/classes.txt: .* index 1 is blank")

    def test_many_images_without_an_object_come_first(self, tmp_path):
        root = write_yolo(tmp_path, num_train=4, num_val=4)
        for i in range(101):
            (root / "images" / "train" / f"-{i}.jpg").hardlink_to(root / "images/train/1.jpg")
            (root / "labels" / "train" / f"-{i}.txt").touch()
        assert find_labels(root, "detect").layout == "YOLO"

    def test_poses(self, tmp_path):
        root = write_yolo(tmp_path, polygons=True)
        with (root / "data.yaml").open("a") as file:
            file.write("kpt_shape: [17, 3]\n")
        refused(root, "detect", "data.yaml: .* kpt_shape")

    def test_folders_in_upper_case(self, tmp_path):
        root = write_yolo(tmp_path)
        for name in ("images", "labels"):
            (root / name).rename(root / name.title())
        (root / "data.yaml").write_text("names: [disc, square]\n")
        assert len(find_labels(root, "detect").train) == 16

    @pytest.mark.parametrize("before", ["/content/foo/", "any name/", "../datasets/x/"])
    def test_a_data_yaml_that_names_folders_of_elsewhere(self, tmp_path, before):
        root = write_yolo(tmp_path / "any name")
        (root / "data.yaml").write_text(
            f"train: {before}images/train\nval: {before}images/val\n"
            f"test: {before}test/images\nnames: [disc, square]\n"
        )
        data = find_labels(root, "detect")
        assert (len(data.train), data.split) == (16, "the data's own train and val")

    def test_a_list_of_missing_images(self, tmp_path):
        root = write_yolo(tmp_path)
        (root / "train.txt").write_text("images/train/0.jpg\nimages/train/gone.jpg\n")
        (root / "data.yaml").write_text("train: train.txt\nval: images/val\nnames: [a, b]\n")
        refused(root, "detect", "train.txt: .* 1 of 2 have none, .*images/train/gone.jpg")
