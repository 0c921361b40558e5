"""Generated scenes in the layouts that the trainers of other packages read."""

import json
import shutil
from pathlib import Path

import numpy as np
from PIL import Image

from mmssprl.datasets.scenes import generate_scenes

IMAGE_PX = 96
NUM_TRAIN, NUM_VAL = 24, 8


class Scenes:
    """Scenes in a folder.

    Attributes:
        images: The folder of the training images.
        coco: Their COCO file.
        masks: A folder with a label image for each training image: 1 where an object is, else 0.
        yolo: A data.yaml with boxes in YOLO's layout.
        classes: Names of the boxes' categories.
    """

    def __init__(self, folder: Path) -> None:
        root = generate_scenes(
            folder / "scenes",
            num_train=NUM_TRAIN,
            num_val=NUM_VAL,
            size_px=IMAGE_PX,
            progress=False,
        )
        self.images = root / "coco/train2014"
        self.coco = root / "coco/annotations/instances_train2014.json"
        self.masks = folder / "masks"
        self.yolo = folder / "yolo/data.yaml"
        categories = json.loads(self.coco.read_text())["categories"]
        self.classes = [each["name"] for each in categories]
        self._write_masks()
        for split in ("train", "val"):
            self._write_yolo(root / "coco", split)
        lines = [f"path: {self.yolo.parent}", "train: images/train", "val: images/val"]
        self.yolo.write_text("\n".join([*lines, f"names: {self.classes}", ""]))

    def _write_masks(self) -> None:
        self.masks.mkdir()
        content = json.loads(self.coco.read_text())
        for image in content["images"]:
            mask = np.zeros((image["height"], image["width"]), np.uint8)
            for box in content["annotations"]:
                if box["image_id"] == image["id"]:
                    left, top, width, height = map(round, box["bbox"])
                    mask[top : top + height, left : left + width] = 1
            Image.fromarray(mask).save(self.masks / f"{Path(image['file_name']).stem}.png")

    def _write_yolo(self, coco: Path, split: str) -> None:
        images = self.yolo.parent / "images" / split
        labels = self.yolo.parent / "labels" / split
        shutil.copytree(coco / f"{split}2014", images)
        labels.mkdir(parents=True)
        content = json.loads((coco / f"annotations/instances_{split}2014.json").read_text())
        for image in content["images"]:
            lines = []
            for box in content["annotations"]:
                if box["image_id"] == image["id"]:
                    left, top, width, height = box["bbox"]
                    x = (left + width / 2) / image["width"]
                    y = (top + height / 2) / image["height"]
                    size = width / image["width"], height / image["height"]
                    numbers = " ".join(f"{value:.6f}" for value in (x, y, *size))
                    lines.append(f"{box['category_id'] - 1} {numbers}")
            (labels / f"{Path(image['file_name']).stem}.txt").write_text("\n".join(lines))
