"""COCO's instance annotations as labels of whole images."""

import os
from typing import Any

from mmssprl.datasets.coco_file import LISTS, read_coco
from mmssprl.datasets.image_reading import require_files
from mmssprl.datasets.labels.coco import class_names, objects_by_image
from mmssprl.datasets.multi_label_target import MultiLabelTargetDataset
from mmssprl.datasets.subset import choose_subset
from mmssprl.registry import DATASETS


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
        ValueError: As ``read_coco``.
    """

    def __init__(
        self, ann_file: str, *, fraction: float = 1.0, split_seed: int = 0, **kwargs: Any
    ) -> None:
        self.fraction = fraction
        self.split_seed = split_seed
        super().__init__(ann_file=ann_file, **kwargs)

    def load_data_list(self) -> list[dict]:
        """Read the annotation file."""
        content = read_coco(self.ann_file, *LISTS)
        self._metainfo["classes"] = tuple(class_names(content))
        objects = objects_by_image(content)
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
                "gt_label": sorted({thing.label for thing in objects[image["id"]]}),
            }
            for image in images
        ]
        require_files([item["img_path"] for item in data_list], self.ann_file)
        return data_list
