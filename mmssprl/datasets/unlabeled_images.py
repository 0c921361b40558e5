"""Unlabeled images from a folder, tar files, a list, or a COCO file."""

import copy
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.dataset import BaseDataset
from torch import Tensor

from ..console.paths import IMAGE_FOLDER, check_image_source
from ..errors import UserValueError, refuse_damaged
from ..pixels import Pixels
from ..registry import DATASETS, TRANSFORMS
from .bad_images import BadImages
from .channel_images import CHANNEL_SUFFIXES, read_as
from .image_identity import stamp_of
from .image_index import IMAGE_SUFFIXES, TAR_SUFFIX, search_images
from .image_reading import ImageReadError, decode_image, read_file, read_image
from .labels.coco_file import read_coco
from .labels.files import require_ann_file, require_files
from .subset import choose_subset
from .tar_images import TarImages, index_tars

_MOST_SIZED = 10_000
"""Largest number of files with their sizes in a fingerprint, because drives can be slow."""


@DATASETS.register_module()
class UnlabeledImages(BaseDataset):
    """Decoded images for self-supervised training.

    The images come from one of five sources:

    * no ``ann_file``: all images below ``data_root/data_prefix`` that are not hidden, sorted by
      path; symbolic links are followed;
    * ``data_root/data_prefix`` is an uncompressed tar file: all images in it;
    * ``data_root/data_prefix`` is a folder with tar files (shards) instead of images: all images in
      them, as if those in ``n01.tar`` were in a folder ``n01``;
    * ``ann_file`` ends in ``.txt``: one path per line, relative to ``data_root/data_prefix`` or
      absolute; empty lines are skipped;
    * ``ann_file`` ends in ``.json``: ``images[].file_name`` of a COCO file, relative as above.

    The pipeline gets a dict with ``img_path`` (str), ``img`` (uint8 (3, H, W), RGB, or as
    ``read_as`` returns it), ``sample_idx`` (int) and, after ``set_epoch``, ``crop_seed`` (seed,
    epoch, index).

    An unreadable image is replaced by another one, which depends only on ``crop_seed`` if there is
    one. Images of any size are accepted: crops of small ones are scaled up.

    ``skipped`` counts the other files by suffix. ``tars`` reads images from tar files; None for
    separate files.

    Args:
        data_root: Folder that ``data_prefix`` and ``ann_file`` are relative to, or a tar file.
        ann_file: List or COCO file; empty for all images. Must be empty with a tar file.
        data_prefix: Folder or tar file of the images below ``data_root``.
        pipeline: Transforms, or their configs.
        max_bad_share: Fraction of the images in [0, 1] that may be unreadable before training
            stops. One bad image is always tolerated, unless this is 0.
        pixels: Kind of the images: a dict of the fields of ``Pixels``, or a backbone or config that
            was trained on them; None is 8-bit RGB.

    Raises:
        FileNotFoundError: The folder, ``ann_file`` or an image that it names does not exist.
        ValueError: No image found, a file of another kind, a tar file that is compressed or
            damaged, a folder of both images and tar files, or a fraction outside [0, 1].
    """

    def __init__(
        self,
        data_root: str,
        ann_file: str = "",
        data_prefix: str = "",
        pipeline: Sequence[dict | Callable] = (),
        max_bad_share: float = 0.01,
        pixels: Any = None,
    ) -> None:
        if not isinstance(max_bad_share, int | float) or not 0 <= max_bad_share <= 1:
            raise UserValueError(f"max_bad_share must be in [0, 1], but got {max_bad_share}.")
        source = os.path.join(data_root, data_prefix) if data_prefix else data_root
        check_image_source(source, "data_root/data_prefix")

        self.max_bad_share = max_bad_share
        self.pixels = Pixels.build(pixels)
        self.skipped: Counter[str] = Counter()
        self.tars: TarImages | None = None
        super().__init__(
            ann_file=ann_file,
            data_root=data_root,
            data_prefix={"img_path": data_prefix},
            pipeline=[TRANSFORMS.build(t) if isinstance(t, dict) else t for t in pipeline],
        )
        self._share_state()

    @property
    def names(self) -> list[str]:
        """The paths of the images, relative to their folder or absolute; a new list each time."""
        return [self._name(index) for index in range(len(self))]

    def load_data_list(self) -> list[dict]:
        """Find the images of the source."""
        source = self.data_prefix["img_path"]
        if not os.path.isdir(source):
            # mmengine joins an empty data_prefix to "photos.tar/".
            names = self._find_in_tar(source.rstrip(os.sep))
        elif self.ann_file:
            names = self._find_in_list(source)
        else:
            names = self._find_in_folder(source)
        return [{"name": name} for name in names]

    def _name(self, index: int) -> str:
        return super().get_data_info(index)["name"]

    def _find_in_tar(self, source: str) -> list[str]:
        if self.ann_file:
            raise UserValueError(
                f"ann_file must be empty with the tar file {source}, but got {self.ann_file!r}; "
                "`tar cf listed.tar -T LIST` packs the images of a list."
            )
        instead = "one image; give its folder" if source.lower().endswith(IMAGE_SUFFIXES) else ""
        if source.lower().endswith(".txt"):
            instead = "a text; `tar cf listed.tar -T LIST` packs the images of a list"
        if instead:
            rule = f"data_root/data_prefix must be {IMAGE_FOLDER}, or a tar file, but"
            raise UserValueError(f"{rule} {source!r} is {instead}.")
        return self._index_tars({"": source})

    def _find_in_list(self, source: str) -> list[str]:
        require_ann_file(self.ann_file)
        names = _read_names(self.ann_file)
        start = os.path.join(source, "")
        require_files([n if os.path.isabs(n) else start + n for n in names], self.ann_file)
        return names

    def _find_in_folder(self, source: str) -> list[str]:
        index = search_images(source, CHANNEL_SUFFIXES if self.pixels else IMAGE_SUFFIXES)
        self.skipped += index.skipped
        if not index.tars:
            return index.names
        shards = {tar[: -len(TAR_SUFFIX)]: os.path.join(source, tar) for tar in index.tars}
        return self._index_tars({f"{name}/": path for name, path in shards.items()})

    def get_data_info(self, idx: int) -> dict:
        """Return ``img_path`` and ``sample_idx`` of one image."""
        idx = range(len(self))[idx]  # takes negative indices, and raises IndexError as lists do
        return {"img_path": self._path(self._name(idx)), "sample_idx": idx}

    def load_image(self, idx: int) -> Tensor:
        """Read one image as ``read_as`` does, without pipeline and replacement."""
        info = self.get_data_info(idx)
        path = info["img_path"]
        if self.tars is None:
            return read_as(path, self.pixels) if self.pixels else read_image(path)
        return decode_image(self.read_bytes(idx), path)

    def read_bytes(self, idx: int) -> np.ndarray:
        """Return the encoded bytes (size,) uint8 of one image."""
        info = self.get_data_info(idx)
        path = info["img_path"]
        return read_file(path) if self.tars is None else self.tars.read(info["sample_idx"], path)

    def stamp(self, idx: int) -> tuple[int, int, int]:
        """Return size and times of one image, see ``stamp_of``; in a tar file the tar's times."""
        if self.tars is None:
            return stamp_of(self._path(self._name(idx)))
        number, _, size = self.tars.places[idx].tolist()
        return size, *stamp_of(self.tars.tars[number].path)[1:]

    def note_unreadable(self, idx: int, error: ImageReadError) -> None:
        """Replace an image from now on; RuntimeError if too many are unreadable."""
        self._bad_images.add(idx, self.get_data_info(idx)["img_path"], error.reason)

    def __getitem__(self, idx: int) -> Any:
        """Read an image, or its replacement, and apply the pipeline."""
        idx = range(len(self))[idx]
        seed, epoch = self._clock.tolist()
        crop_seed = None if epoch < 0 else (seed, epoch, idx)

        for candidate in self._candidates(idx, crop_seed):
            info = self.get_data_info(candidate)
            if candidate in self._bad_images:
                continue
            try:
                info["img"] = self.load_image(candidate)
                break
            except ImageReadError as error:
                self.note_unreadable(candidate, error)

        if crop_seed:
            info["crop_seed"] = crop_seed
        return self.pipeline(info)

    def _candidates(self, idx: int, crop_seed: tuple[int, ...] | None) -> Iterator[int]:
        """Yield the index of an image, and then, without end, of images to replace it."""
        yield idx
        # Independent of the crops: their generator starts from crop_seed itself.
        seeds = (*crop_seed, 1) if crop_seed else (int(torch.randint(2**62, ())),)
        draw = np.random.default_rng(seeds)
        while True:
            yield int(draw.integers(len(self)))

    def fingerprint(self) -> dict[str, Any]:
        """Return digests that show whether images changed, whatever their folder.

        They cover all names in their order, and the sizes of ``num_sized`` evenly spaced files.
        """
        places = np.linspace(0, len(self) - 1, min(len(self), _MOST_SIZED)).astype(int).tolist()
        sizes = np.array([self.stamp(index)[0] for index in places], np.int64)

        encoded = [os.fsencode(name) for name in self.names]
        ends = np.cumsum([len(name) for name in encoded], dtype=np.int64)
        names = hashlib.sha256(b"".join(encoded) + ends.tobytes())

        return {
            "num_images": len(self),
            "names": names.hexdigest(),
            "sizes": hashlib.sha256(sizes.tobytes()).hexdigest(),
            "num_sized": len(places),
        }

    def set_epoch(self, epoch: int, seed: int) -> None:
        """Make crops depend only on ``seed``, ``epoch`` (from 0) and the index.

        Running loader workers use it from their next image.
        """
        self._clock.copy_(torch.tensor([seed, epoch]))

    def record_bad_images(self, path: str | Path) -> None:
        """List unreadable images in the file ``path``, see ``BadImages.keep_list``.

        Call it before the loader starts its workers. Ranks and resumed runs may share the file,
        usually ``work_dir/bad_images.txt``.
        """
        self._bad_images.keep_list(path)

    def get_subset_(self, indices: Sequence[int]) -> None:
        """Keep only the images of these indices; reset the bad images and the epoch."""
        everything = range(len(self))
        chosen = [everything[index] for index in indices]
        super().get_subset_(chosen)
        if self.tars is not None:
            self.tars = TarImages(self.tars.tars, self.tars.places[chosen])
        self._share_state()

    def get_subset(self, indices: Sequence[int]) -> "UnlabeledImages":
        """Return a data set of the images of these indices, see ``get_subset_``."""
        subset = copy.copy(self)
        subset.get_subset_(indices)
        return subset

    def sample(self, most: int) -> "UnlabeledImages":
        """Return a fixed random subset of at most ``most`` images."""
        return self.get_subset(choose_subset(range(len(self)), min(1.0, most / len(self))))

    def _index_tars(self, paths: dict[str, str]) -> list[str]:
        if self.pixels:
            raise UserValueError(
                "images that are not 8-bit RGB must be separate files, but got "
                f"{next(iter(paths.values()))}; unpack it, or leave channels out."
            )
        found = index_tars(paths)
        self.tars = found.images
        self.skipped += found.skipped
        return found.names

    def _path(self, name: str) -> str:
        return os.path.join(self.data_prefix["img_path"], name)

    def _share_state(self) -> None:
        self._clock = torch.tensor([0, -1]).share_memory_()  # seed, epoch (-1: not set)
        self._bad_images = BadImages(len(self), self.max_bad_share)


def _read_names(ann_file: str) -> list[str]:
    """Return the image names of a list or a COCO file, in its order."""
    suffix = Path(ann_file).suffix.lower()
    if suffix == ".txt":
        with refuse_damaged(ann_file, "text in UTF-8", "save it in UTF-8"):
            lines = Path(ann_file).read_text(encoding="utf-8-sig").splitlines()
        names = [line.strip() for line in lines if line.strip()]
    elif suffix == ".json":
        names = [image["file_name"] for image in read_coco(ann_file, "images")["images"]]
    else:
        raise UserValueError(
            f"ann_file must end in .txt (a list) or .json (COCO), but got {ann_file!r}; rename it."
        )
    if not names:
        raise UserValueError(
            f"{ann_file}: must name at least one image, but names none; write one path per line."
        )
    return names
