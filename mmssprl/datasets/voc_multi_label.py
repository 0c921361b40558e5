"""PASCAL VOC's objects as labels of whole images."""

import os
from pathlib import Path
from typing import Any

from mmssprl.datasets.image_reading import require_files
from mmssprl.datasets.labels import voc
from mmssprl.datasets.multi_label_target import MultiLabelTargetDataset
from mmssprl.registry import DATASETS

from ..errors import UserFileNotFoundError, UserValueError


@DATASETS.register_module()
class VocMultiLabel(MultiLabelTargetDataset):
    """The classes present in each image of a VOC image set.

    An item has ``img_path`` (str), ``gt_label``, the sorted indices of the classes of which the
    image shows an object, ``gt_unknown``, those of which it shows "difficult" objects only, and
    ``gt_score`` (K,): 1 present, 0 absent, -1 difficult, which the protocol counts neither in loss
    nor in metric.

    Args:
        data_root: Folder with Annotations, ImageSets and JPEGImages, such as VOCdevkit/VOC2007.
        split: Image set, a file name of ImageSets/Main without ".txt".
        classes: Names in the order of their indices. None takes the names of the per-class lists
            of ImageSets/Main in alphabetical order, as in the benchmark.
        kwargs: As mmpretrain's ``MultiLabelDataset``.

    Raises:
        FileNotFoundError: An image set, annotation file or image that does not exist.
        ValueError: Annotations that are no XML or of an unknown class, or no per-class lists.
    """

    def __init__(
        self,
        data_root: str = "",
        split: str = "trainval",
        classes: list[str] | None = None,
        **kwargs: Any,
    ) -> None:
        self.split = split
        super().__init__(
            ann_file=os.path.join("ImageSets", "Main", f"{split}.txt"),
            data_root=data_root,
            data_prefix=os.path.join("JPEGImages", ""),
            classes=classes,
            **kwargs,
        )

    def load_data_list(self) -> list[dict]:
        """Read the image set and the annotations of its images."""
        main = Path(self.ann_file).parent
        names = read_image_set(main / f"{self.split}.txt")
        if not self._metainfo.get("classes"):
            stems = (path.stem for path in main.glob("*.txt"))
            self._metainfo["classes"] = tuple(voc.listed_classes(stems))
        index_of = {name: index for index, name in enumerate(self._metainfo["classes"])}
        if not index_of:
            raise UserValueError(
                f"{main} must hold the lists <class>_<split>.txt, which name the classes, but "
                "holds none; copy them, or give classes=[...]."
            )
        data_list: list[dict[str, Any]] = []
        for name in names:
            path = main.parents[1] / "Annotations" / f"{name}.xml"
            objects = voc.read_objects(voc.parse(path, str(path)), str(path))
            shown, unknown = {title for title, _ in objects}, voc.only_difficult(objects)
            strange = sorted(shown - set(index_of))
            if strange:
                raise UserValueError(
                    f"{path}: objects must be of the {len(index_of)} classes of the data set, but "
                    f"got {strange[0]!r}; give classes=[...] with all names, or correct the file."
                )
            data_list.append(
                {
                    "img_path": os.path.join(self.data_prefix["img_path"], f"{name}.jpg"),
                    "gt_label": sorted(index_of[title] for title in shown - unknown),
                    "gt_unknown": sorted(index_of[title] for title in unknown),
                }
            )
        require_files([item["img_path"] for item in data_list], self.ann_file)
        return data_list


def read_image_set(path: Path) -> list[str]:
    """Return the image names that a file of ImageSets lists.

    Raises:
        FileNotFoundError: There is no such file.
    """
    if not path.is_file():
        raise UserFileNotFoundError(
            f"an image set must be a file of ImageSets/Main, but there is no {path}; the test "
            "annotations of VOC2007 are a download of their own."
        )
    return [line.split()[0] for line in path.read_text().splitlines() if line.strip()]
