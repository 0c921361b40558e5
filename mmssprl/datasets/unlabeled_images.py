"""Images without labels: a folder, a list, or the images of a COCO annotation file."""

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.dataset import BaseDataset
from mmengine.logging import print_log

from mmssprl.datasets.bad_images import BadImages
from mmssprl.datasets.coco_multi_label import read_coco, require_ann_file
from mmssprl.datasets.image_reading import ImageReadError, read_image, require_files
from mmssprl.registry import DATASETS, TRANSFORMS

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp")
"""What a folder is searched for, in upper, lower or mixed case."""


@DATASETS.register_module()
class UnlabeledImages(BaseDataset):
    """Decoded images for self-supervised training.

    The images come from one of three sources:

    * no ``ann_file``: every image below ``data_root/data_prefix``, in the order of the paths,
      through symbolic links too; hidden files and folders are left out, and a folder that cannot
      be listed is warned of;
    * ``ann_file`` ending in ``.txt``: one path a line, relative to ``data_root/data_prefix`` or
      absolute; empty lines are skipped;
    * ``ann_file`` ending in ``.json``: ``images[].file_name`` of a COCO file, likewise relative.

    The paths are kept as bytes in one array, so that workers share them. An item is the dict
    ``img_path`` (str), ``img`` (uint8 (3, H, W), RGB), ``sample_idx`` (int) and, once
    ``set_epoch`` was called, ``crop_seed`` (seed, epoch, index), after the pipeline.

    An unreadable image is replaced by another one; which one follows from ``crop_seed`` alone,
    if there is one. Images of any size are accepted: crops of small ones are scaled up.

    Args:
        data_root: Folder that ``data_prefix`` and ``ann_file`` are relative to.
        ann_file: List or COCO file; empty means the folder itself.
        data_prefix: Folder of the images below ``data_root``.
        pipeline: Transforms, or their configs.
        max_bad_share: Share of the images in [0, 1] that may be unreadable before training
            stops. One bad image is tolerated in however small a data set, unless this is 0.

    Raises:
        FileNotFoundError: The folder, ``ann_file`` or an image that it names does not exist.
        ValueError: No image found, a file of another kind, or a share outside [0, 1].
    """

    def __init__(
        self,
        data_root: str,
        ann_file: str = "",
        data_prefix: str = "",
        pipeline: Sequence[dict | Callable] = (),
        max_bad_share: float = 0.01,
    ) -> None:
        if not 0 <= max_bad_share <= 1:
            raise ValueError(
                f"max_bad_share must be a share of the images in [0, 1], but got {max_bad_share}."
            )
        self.max_bad_share = max_bad_share
        super().__init__(
            ann_file=ann_file,
            data_root=data_root,
            data_prefix={"img_path": data_prefix},
            pipeline=[TRANSFORMS.build(t) if isinstance(t, dict) else t for t in pipeline],
        )
        self._share_state()

    def load_data_list(self) -> list[str]:
        """Return the paths of the images relative to their folder, as the source gives them."""
        folder = self.data_prefix["img_path"]
        if not os.path.isdir(folder):
            raise FileNotFoundError(
                f"data_root/data_prefix must be a folder of images, but {folder!r} is "
                f"{'a file' if os.path.exists(folder) else 'missing'}; correct the path."
            )
        if not self.ann_file:
            return _walk(folder)
        require_ann_file(self.ann_file)
        names = _read_names(self.ann_file)
        require_files([os.path.join(folder, name) for name in names], self.ann_file)
        return names

    def get_data_info(self, idx: int) -> dict:
        """Return ``img_path`` and ``sample_idx`` of one image."""
        idx = range(len(self))[idx]  # counts from the end and raises IndexError as lists do
        start = self.data_address[idx - 1] if idx else 0
        name = os.fsdecode(self.data_bytes[start : self.data_address[idx]].tobytes())
        return {"img_path": os.path.join(self.data_prefix["img_path"], name), "sample_idx": idx}

    def __getitem__(self, idx: int) -> Any:
        """Read an image, or its replacement, and return what the pipeline makes of it."""
        idx = range(len(self))[idx]
        seed, epoch = self._clock.tolist()
        crop_seed = None if epoch < 0 else (seed, epoch, idx)
        draw: np.random.Generator | None = None
        while True:
            info = self.get_data_info(idx)
            if idx not in self._bad_images:
                try:
                    info["img"] = read_image(info["img_path"])
                    break
                except ImageReadError as error:
                    self._bad_images.add(idx, info["img_path"], error.reason)
            if draw is None:
                # A stream apart from the crops', which start from crop_seed itself.
                seeds = (*crop_seed, 1) if crop_seed else (int(torch.randint(2**62, ())),)
                draw = np.random.default_rng(seeds)
            idx = int(draw.integers(len(self)))
        if crop_seed:
            info["crop_seed"] = crop_seed
        return self.pipeline(info)

    def set_epoch(self, epoch: int, seed: int) -> None:
        """Make the crops of this epoch depend on ``seed``, the epoch and the index alone.

        Loader workers that run already see it at the next image they start.

        Args:
            epoch: Number of the epoch, from 0.
            seed: Seed of the run, from 0, the same on all ranks.

        Raises:
            ValueError: A negative number, which no generator takes as a seed.
        """
        if epoch < 0 or seed < 0:
            raise ValueError(f"epoch and seed must be >= 0, but got {epoch} and {seed}.")
        self._clock.copy_(torch.tensor([seed, epoch]))

    def record_bad_images(self, path: str | Path) -> None:
        """List unreadable images in the file ``path`` from now on.

        Call it before the loader starts its workers. All ranks and resumed runs may share a file.

        Args:
            path: The list, usually ``work_dir/bad_images.txt``: one image path, a tab and the
                reason per line, and each image once.

        Raises:
            RuntimeError: The images listed by an earlier run already exceed ``max_bad_share``.
        """
        paths = (self.get_data_info(i)["img_path"] for i in range(len(self)))
        self._bad_images.keep_list(path, paths)

    def get_subset_(self, indices: Sequence[int] | int) -> None:
        """Keep only some images; bad images and the epoch are forgotten."""
        super().get_subset_(indices)
        self._share_state()

    def get_subset(self, indices: Sequence[int] | int) -> "UnlabeledImages":
        """Return a data set of some of the images, with its own bad images and epoch."""
        subset = super().get_subset(indices)
        subset._share_state()
        return subset

    def _share_state(self) -> None:
        self._clock = torch.tensor([0, -1]).share_memory_()  # seed, epoch (-1: not set)
        self._bad_images = BadImages(len(self), self.max_bad_share)

    def _serialize_data(self) -> tuple[np.ndarray, np.ndarray]:
        names = [os.fsencode(name) for name in self.data_list]
        self.data_list.clear()
        return np.frombuffer(b"".join(names), np.uint8), np.cumsum([len(name) for name in names])


def _walk(folder: str) -> list[str]:
    """Find the images below a folder; the result is sorted and relative to it."""
    found: list[str] = []
    unreadable: list[str] = []
    seen: set[tuple[int, int]] = set()
    num_others = 0
    walk = os.walk(folder, onerror=lambda error: unreadable.append(str(error)), followlinks=True)
    for parent, folders, files in walk:
        status = os.stat(parent)
        if (status.st_dev, status.st_ino) in seen:  # a link back up would never end
            folders.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        names = [name for name in files if not name.startswith(".")]
        images = [name for name in names if name.lower().endswith(IMAGE_SUFFIXES)]
        num_others += len(names) - len(images)
        found += [os.path.relpath(os.path.join(parent, name), folder) for name in images]
    if unreadable:
        print_log(
            f"{len(unreadable)} folder(s) below {folder} cannot be listed, their images are left "
            f"out: {unreadable[:3]}",
            logger="current",
            level=logging.WARNING,
        )
    if not found:
        raise ValueError(
            f"data_root/data_prefix: {folder!r} must hold images ({', '.join(IMAGE_SUFFIXES)}), "
            f"but got {num_others} other files, {len(unreadable)} folders that cannot be listed "
            "and no image; correct the path."
        )
    return sorted(found)


def _read_names(ann_file: str) -> list[str]:
    """Return the image names of a list or a COCO file, in its order."""
    suffix = Path(ann_file).suffix.lower()
    if suffix == ".txt":
        lines = Path(ann_file).read_text(encoding="utf-8-sig").splitlines()
        names = [line.strip() for line in lines if line.strip()]
    elif suffix == ".json":
        names = [image["file_name"] for image in read_coco(ann_file, "images")["images"]]
    else:
        raise ValueError(
            f"ann_file must end in .txt (a list) or .json (COCO), but got {ann_file!r}; rename it."
        )
    if not names:
        raise ValueError(
            f"{ann_file}: must name at least one image, but names none; write one path per line, "
            "or images[].file_name."
        )
    return names
