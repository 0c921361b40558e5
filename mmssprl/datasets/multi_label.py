"""Classes of images from the objects of COCO and PASCAL VOC: present, absent or unknown."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from mmpretrain.datasets import MultiLabelDataset
from numpy.typing import NDArray

from ..errors import UserValueError
from ..registry import DATASETS
from .labels import voc
from .labels.coco_file import LISTS, class_names, objects_by_image, read_coco
from .labels.files import require_ann_file, require_files
from .labels.split_lists import listed_names
from .subset import choose_subset

PRESENT = 1
ABSENT = 0
UNKNOWN = -1


def target(num_classes: int, present: Sequence[int], unknown: Sequence[int] = ()) -> NDArray:
    """Return the target (K,) float32 of one image: 1 present, 0 absent, -1 unknown."""
    scores = np.full(num_classes, ABSENT, np.float32)
    scores[list(unknown)] = UNKNOWN
    scores[list(present)] = PRESENT
    return scores


@DATASETS.register_module()
class MultiLabelTargetDataset(MultiLabelDataset):
    """A data set that adds ``gt_score`` to its items, the ``target`` of the image.

    It is made of ``gt_label``, the classes present, and optionally ``gt_unknown``, the classes that
    loss and metric ignore.
    """

    def get_data_info(self, idx: int) -> dict[str, Any]:
        """Return the item of one image before the pipeline."""
        info = super().get_data_info(idx)
        classes = self.metainfo["classes"]
        info["gt_score"] = target(len(classes), info["gt_label"], info.get("gt_unknown", ()))
        return info


@DATASETS.register_module()
class CocoMultiLabel(MultiLabelTargetDataset):
    """The categories present in each image of a COCO annotation file.

    An item has ``img_path``, ``gt_label``, the sorted indices of the categories of its annotations
    with crowds, and ``gt_score`` (K,), the same as 0 and 1. Index i is the i-th category by id;
    ``metainfo['classes']`` holds the names. Images without annotations are kept.

    Args:
        ann_file: COCO instances file, relative to ``data_root`` or absolute.
        fraction: Fraction of the images to use, in (0, 1], see ``choose_subset``.
        kwargs: As in mmpretrain's ``MultiLabelDataset``, without classes: the file has them.

    Raises:
        FileNotFoundError: The file or an image in it does not exist.
        ValueError: See ``read_coco``.
    """

    def __init__(self, ann_file: str, *, fraction: float = 1.0, **kwargs: Any) -> None:
        self.fraction = fraction
        super().__init__(ann_file=ann_file, **kwargs)

    def load_data_list(self) -> list[dict]:
        """Read the annotation file."""
        content = read_coco(self.ann_file, *LISTS)
        self._metainfo["classes"] = tuple(class_names(content))
        objects = objects_by_image(content)
        chosen = set(choose_subset([*objects], self.fraction) if self.fraction != 1 else objects)

        folder = self.data_prefix["img_path"]
        shown: dict[str, set[int]] = {}  # an image may have several entries
        for image in content["images"]:
            if image["id"] in chosen:
                path = os.path.join(folder, image["file_name"])
                shown.setdefault(path, set()).update(thing.label for thing in objects[image["id"]])
        require_files([*shown], self.ann_file)
        return [{"img_path": path, "gt_label": sorted(own)} for path, own in shown.items()]


@DATASETS.register_module()
class VocMultiLabel(MultiLabelTargetDataset):
    """The classes present in each image of a VOC image set.

    An item has ``img_path``, ``gt_label``, the sorted indices of the classes present,
    ``gt_unknown``, the classes with only "difficult" objects, and ``gt_score`` (K,): 1 present, 0
    absent, -1 difficult.

    Args:
        data_root: Folder with Annotations, ImageSets and JPEGImages, such as VOCdevkit/VOC2007.
        split: Image set: a file name in ImageSets/Main without ".txt".
        classes: Names in the order of their indices; by default the names of the per-class lists
            in ImageSets/Main, in alphabetical order, as in the benchmark.
        kwargs: As in mmpretrain's ``MultiLabelDataset``.

    Raises:
        FileNotFoundError: An image set, annotation file or image does not exist.
        ValueError: Annotations are not XML, have an unknown class, or there are no per-class lists.
    """

    def __init__(
        self,
        data_root: str = "",
        split: str = "trainval",
        classes: list[str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            ann_file=os.path.join("ImageSets", "Main", f"{split}.txt"),
            data_root=data_root,
            data_prefix=os.path.join("JPEGImages", ""),
            classes=classes,
            **kwargs,
        )

    def load_data_list(self) -> list[dict]:
        """Read the image set and the annotations of its images."""
        require_ann_file(self.ann_file)
        main = Path(self.ann_file).parent
        if not self._metainfo.get("classes"):
            stems = (path.stem for path in main.glob("*.txt"))
            self._metainfo["classes"] = tuple(voc.listed_classes(stems))

        index_of = {name: index for index, name in enumerate(self._metainfo["classes"])}
        names = listed_names(Path(self.ann_file).read_text().splitlines())
        data_list = [self._read_item(name, main, index_of) for name in names]
        require_files([item["img_path"] for item in data_list], self.ann_file)
        return data_list

    def _read_item(self, name: str, main: Path, index_of: dict[str, int]) -> dict[str, Any]:
        """Read the classes of one image; ``main`` is the folder of its image set."""
        path = main.parents[1] / "Annotations" / f"{name}.xml"
        objects = voc.read_objects(voc.parse(path, str(path)), str(path))
        shown = {title for title, _ in objects}
        if strange := sorted(shown - set(index_of)):
            raise UserValueError(
                f"{path}: objects must be of the {len(index_of)} classes of the data set, but got "
                f"{strange[0]!r}; give classes=[...], add lists <class>_<split>.txt in {main}, or "
                "correct the file."
            )

        unknown = voc.only_difficult(objects)
        return {
            "img_path": os.path.join(self.data_prefix["img_path"], f"{name}.jpg"),
            "gt_label": sorted(index_of[title] for title in shown - unknown),
            "gt_unknown": sorted(index_of[title] for title in unknown),
        }
