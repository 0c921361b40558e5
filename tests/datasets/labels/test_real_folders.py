import os

import pytest
from helpers.datasets.labelled_folders import (
    images_of,
    refused,
    write_image,
    write_listed,
    write_voc,
    write_xml,
)

from mmssprl.datasets.labels import find_labels


def names_of(data):
    return sorted(image.path.removeprefix(f"{data.root}/") for image in images_of(data))


class TestImagesInFoldersNamedLikeMasks:
    @pytest.mark.parametrize("folder", ["mask", "labels", "annotations", "gt"])
    def test_coco(self, tmp_path, folder):
        names = [f"{kind}/{i}.jpg" for i in range(6) for kind in (folder, f"no{folder}")]
        write_listed(tmp_path, names, names)
        assert names_of(find_labels(tmp_path, "detect")) == sorted(names)

    def test_a_name_without_folders_means_a_photograph(self, tmp_path):
        names = [f"{i}.png" for i in range(6)]
        images = [f"{folder}/{name}" for name in names for folder in ("images", "masks")]
        write_listed(tmp_path, images, names, file="masks.json")
        assert names_of(find_labels(tmp_path, "detect"))[0] == "images/0.png"

    @pytest.mark.parametrize("folder", ["labels", "annotations"])
    def test_yolo_and_voc(self, tmp_path, folder):
        for i in range(6):
            write_image(tmp_path / folder / f"{i}.jpg", i)
            if folder == "labels":
                (tmp_path / folder / f"{i}.txt").write_text(f"{i % 2} 0.5 0.5 0.2 0.2\n")
            else:
                # LabelImg keeps the name that the image once had.
                write_xml(tmp_path / folder / f"{i}.xml", i, "DSC_0001.jpg")
        data = find_labels(tmp_path, "detect")
        layout = {"labels": "YOLO", "annotations": "PASCAL VOC"}[folder]
        assert (data.layout, len(data.train), len(data.val)) == (layout, 5, 1)

    def test_voc_whose_masks_have_the_name_in_the_xml(self, tmp_path):
        root = write_voc(tmp_path)
        for i in range(24):
            write_image(root / "SegmentationClass" / f"img_{i:03d}.png", i)
            write_xml(root / "Annotations" / f"img_{i:03d}.xml", i, f"img_{i:03d}.png")
        assert names_of(find_labels(root, "detect"))[0] == "JPEGImages/img_000.jpg"


class TestImagesOfCocoFiles:
    """Which image a file_name means."""

    def test_the_folders_of_a_name_must_exist(self, tmp_path):
        images = [f"images/val/{i}.jpg" for i in range(6)]
        write_listed(tmp_path, images, [f"val/{i}.jpg" for i in range(6)])
        assert len(find_labels(tmp_path, "detect").train) == 5
        write_listed(tmp_path, images, [f"../images/val/{i}.jpg" for i in range(6)])
        assert len(find_labels(tmp_path, "detect").train) == 5
        write_image(tmp_path / "more/1.jpg", 1)
        write_listed(tmp_path, images, ["val/0.jpg", "train/1.jpg", "train/images/val/2.jpg"])
        refused(tmp_path, "detect", "1 of 3 have none, .*'train/1.jpg'")

    @pytest.mark.parametrize("before", ["/home/me/photos/", "C:\\me\\photos\\"])
    def test_an_absolute_path_may_be_of_another_machine(self, tmp_path, before):
        names = [f"{i}.jpg" for i in range(6)]
        for folder in ("photos", "others"):
            images = [f"{folder}/{name}" for name in names]
            write_listed(tmp_path, images, [before + name for name in names])
        data = find_labels(tmp_path, "detect")
        assert all("/photos/" in image.path for image in images_of(data))
        write_listed(tmp_path, (), [f"/home/me/gone/{name}" for name in names])
        refused(tmp_path, "detect", "6 of 6 have none")

    def test_an_absolute_path_may_lead_out_of_the_folder(self, tmp_path):
        names = [str(tmp_path / "elsewhere" / f"{i}.png") for i in range(6)]
        root = tmp_path / "data"
        write_listed(root, names, names)
        data = find_labels(root, "detect")
        assert sorted(image.path for image in images_of(data)) == names
        os.unlink(names[2])
        refused(root, "detect", "1 of 6 have none, .*2.png")

    def test_two_images_of_one_name(self, tmp_path):
        write_listed(tmp_path, ["a/0.jpg", "b/0.jpg", "a/1.jpg"], ["0.jpg", "1.jpg"])
        refused(tmp_path, "detect", "0.jpg is a/0.jpg and b/0.jpg")
