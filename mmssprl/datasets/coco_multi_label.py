"""COCO's instance annotations as labels of whole images."""

import json
import os
from typing import Any

from mmssprl.datasets.image_reading import require_files
from mmssprl.datasets.multi_label_target import MultiLabelTargetDataset
from mmssprl.datasets.subset import choose_subset
from mmssprl.registry import DATASETS

from ..errors import UserFileNotFoundError, UserValueError


@DATASETS.register_module()
class CocoMultiLabel(MultiLabelTargetDataset):
    """The categories present in each image of a COCO annotation file.

    An item has ``img_path`` (str) and ``gt_label``, the sorted indices of the categories that at
    least one annotation of the image names. Index i is the i-th category by id, and
    ``metainfo['classes']`` holds the names in that order. A crowd annotation counts: the category
    is in the image. An image without annotations stays, with ``gt_label=[]``. ``gt_score`` (K,) is
    the same as 0 and 1.

    Args:
        ann_file: COCO instances file, relative to ``data_root`` or absolute.
        data_prefix: Folder of the images, relative to ``data_root`` or absolute.
        fraction: Share of the images that is used, in (0, 1], see ``choose_subset``: the
            semi-supervised protocol trains on 0.01, 0.1 and 1.
        split_seed: Seed of that choice.
        kwargs: As mmpretrain's ``MultiLabelDataset``, but the classes are those of the file.

    Raises:
        FileNotFoundError: The file or an image that it lists does not exist.
        ValueError: A file of another kind, or an annotation of an unknown image or category.
    """

    def __init__(
        self, ann_file: str, *, fraction: float = 1.0, split_seed: int = 0, **kwargs: Any
    ) -> None:
        self.fraction = fraction
        self.split_seed = split_seed
        super().__init__(ann_file=ann_file, **kwargs)

    def load_data_list(self) -> list[dict]:
        """Read the annotation file."""
        content = read_coco(self.ann_file, "images", "annotations", "categories")
        categories = sorted(content["categories"], key=lambda category: category["id"])
        self._metainfo["classes"] = tuple(category["name"] for category in categories)
        index_of = {category["id"]: index for index, category in enumerate(categories)}
        labels: dict[int, set[int]] = {image["id"]: set() for image in content["images"]}
        for annotation in content["annotations"]:
            image_id, category_id = annotation.get("image_id"), annotation.get("category_id")
            if image_id not in labels or category_id not in index_of:
                unknown = "image_id" if image_id not in labels else "category_id"
                raise UserValueError(
                    f"{self.ann_file}: annotation {annotation.get('id')} must name an image and a "
                    f"category of the same file, but got {unknown}={annotation.get(unknown)}; "
                    "repair the file."
                )
            labels[image_id].add(index_of[category_id])
        images = content["images"]
        if self.fraction != 1:
            chosen = set(
                choose_subset([image["id"] for image in images], self.fraction, self.split_seed)
            )
            images = [image for image in images if image["id"] in chosen]
        folder = self.data_prefix["img_path"]
        data_list = [
            {
                "img_path": os.path.join(folder, image["file_name"]),
                "gt_label": sorted(labels[image["id"]]),
            }
            for image in images
        ]
        require_files([item["img_path"] for item in data_list], self.ann_file)
        return data_list


def require_ann_file(ann_file: str) -> None:
    """Raise FileNotFoundError if there is no such annotation file."""
    if not os.path.isfile(ann_file):
        raise UserFileNotFoundError(
            f"ann_file must be a file, but there is none at {ann_file!r}; correct the path "
            "(relative to data_root, or absolute)."
        )


def read_coco(ann_file: str, *keys: str) -> dict[str, list[dict]]:
    """Read a COCO file.

    Args:
        ann_file: Path of the file.
        keys: The lists it must hold. Each image must have a ``file_name``.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is no JSON, or a list or a file name is missing.
    """
    require_ann_file(ann_file)
    with open(ann_file, encoding="utf-8") as file:
        try:
            content = json.load(file)
        except ValueError as error:
            raise UserValueError(
                f"{ann_file}: must be JSON, but {error}; download or write it again."
            ) from error
    for key in keys:
        if not isinstance(content, dict) or not isinstance(content.get(key), list):
            raise UserValueError(
                f"{ann_file}: must hold the list(s) {', '.join(keys)} of a COCO file, but has no "
                f"list {key!r}; take an instances_*.json."
            )
    if not all("file_name" in image for image in content["images"]):
        raise UserValueError(
            f"{ann_file}: each entry of images must have a file_name, but some have none; "
            "take an instances_*.json."
        )
    return content
