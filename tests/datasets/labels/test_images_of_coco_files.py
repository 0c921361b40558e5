"""Where the images lie that a COCO file names."""

import json
import os

import pytest
from helpers.datasets.labelled_folders import (
    coco_content,
    refused,
    write_image,
)

from mmssprl.datasets.labels import find_labels


class TestImagesOfCocoFiles:
    """Which image a file_name means."""

    def write(self, root, images, names):
        for i, name in enumerate(images):
            write_image(root / name, i)
        (root / "all.json").write_text(json.dumps(coco_content(names)))

    def test_the_folders_of_a_name_must_be_there(self, tmp_path):
        images = [f"images/val/{i}.jpg" for i in range(6)]
        self.write(tmp_path, images, [f"val/{i}.jpg" for i in range(6)])
        assert len(find_labels(tmp_path, "detect").train) == 5
        self.write(tmp_path, images, [f"../images/val/{i}.jpg" for i in range(6)])
        assert len(find_labels(tmp_path, "detect").train) == 5
        self.write(tmp_path, images, ["val/0.jpg", "train/1.jpg", "train/images/val/2.jpg"])
        refused(tmp_path, "detect", "2 of 3 have none, .*'train/1.jpg', 'train/images/val/2.jpg'")

    @pytest.mark.parametrize("before", ["/home/me/photos/", "C:\\me\\photos\\"])
    def test_an_absolute_path_may_be_of_another_machine(self, tmp_path, before):
        names = [f"{i}.jpg" for i in range(6)]
        for folder in ("photos", "others"):
            self.write(
                tmp_path, [f"{folder}/{name}" for name in names], [before + n for n in names]
            )
        data = find_labels(tmp_path, "detect")
        assert all("/photos/" in image.path for image in (*data.train, *data.val))
        self.write(tmp_path, (), [f"/home/me/gone/{name}" for name in names])
        refused(tmp_path, "detect", "6 of 6 have none")

    def test_an_absolute_path_may_lead_out_of_the_folder(self, tmp_path):
        names = [str(tmp_path / "elsewhere" / f"{i}.png") for i in range(6)]
        for i in range(6):
            write_image(tmp_path / "elsewhere" / f"{i}.png", i)
        root = tmp_path / "data"
        root.mkdir()
        self.write(root, (), names)
        data = find_labels(root, "detect")
        assert sorted(image.path for image in [*data.train, *data.val]) == names
        os.unlink(names[2])
        refused(root, "detect", "1 of 6 have none, .*2.png")

    def test_two_images_of_one_name(self, tmp_path):
        self.write(tmp_path, ["a/0.jpg", "b/0.jpg", "a/1.jpg"], ["0.jpg", "1.jpg"])
        refused(tmp_path, "detect", "0.jpg is a/0.jpg and b/0.jpg")
