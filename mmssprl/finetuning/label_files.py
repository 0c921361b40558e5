"""Write the labels of a run into its work dir, for OpenMMLab's data sets and other tools.

Objects of detection are in COCO's format; classes and masks of images are in mmengine's.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..datasets.labels import LabelledData, LabelledImage
from ..datasets.labels.object_masks import rectangle
from ..system.outputs import write_whole


def write_labels(data: LabelledData, folder: Path, task: str) -> None:
    """Write train.json and val.json into a folder, with paths relative to the data's root."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, images in (("train", data.train), ("val", data.val)):
        content = _coco(data, images) if task == "detect" else _data_list(data, images, task)
        write_whole(folder / f"{split}.json", json.dumps(content))


def _coco(data: LabelledData, images: Sequence[LabelledImage]) -> dict[str, Any]:
    has_masks = data.has_masks
    listed: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for number, image in enumerate(images, start=1):
        name = os.path.relpath(image.path, data.root)
        width, height = image.size
        listed.append({"id": number, "file_name": name, "width": width, "height": height})
        for thing in image.objects:
            # COCO's evaluation reads id 0 as "no match", so ids start at 1.
            entry: dict[str, Any] = {"id": len(annotations) + 1, "image_id": number}
            entry.update(category_id=thing.label + 1, iscrowd=int(thing.is_crowd))
            if thing.box is not None:
                entry.update(bbox=list(thing.box), area=thing.box[2] * thing.box[3])
            if thing.segmentation:
                entry["segmentation"] = thing.segmentation
            elif has_masks and thing.box is not None:  # of a crowd; mmdet needs a mask of each
                entry["segmentation"] = [rectangle(*thing.box)]
            annotations.append(entry)
    return {
        "images": listed,
        "annotations": annotations,
        "categories": [{"id": i, "name": name} for i, name in enumerate(data.classes, start=1)],
    }


def _data_list(data: LabelledData, images: Sequence[LabelledImage], task: str) -> dict[str, Any]:
    items = []
    for image in images:
        item: dict[str, Any] = {"img_path": os.path.relpath(image.path, data.root)}
        item.update(width=image.size[0], height=image.size[1])
        if image.label is not None:
            item["gt_label"] = image.label
        elif task == "classify":  # as MultiLabelTargetDataset reads it
            item["gt_label"] = sorted(image.known)
            item["gt_unknown"] = sorted(image.unknown)
        elif image.mask is not None:
            item["seg_map_path"] = os.path.relpath(image.mask, data.root)
            if image.mask_colours:
                item["seg_map_colours"] = image.mask_colours
            if image.mask_orientation > 1:
                item["seg_map_orientation"] = image.mask_orientation
        else:  # mmengine needs the key of each data_prefix
            item.update(seg_map_path="", objects=[asdict(thing) for thing in image.objects])
        items.append(item)
    return {"metainfo": {"classes": data.classes}, "data_list": items}
