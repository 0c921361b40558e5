"""A teacher's pass over a data set: it sees each image once, and its maps are kept in a file.

Legend: C channels of the teacher's map, h, w its rows and columns, M the most cells of a map, D
principal components, N images of the data set, R cells.
"""

import json
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms.v2.functional import resize

from ..console.progress import watch
from ..console.quiet import say
from ..console.wording import on_one_line
from ..datasets import UnlabeledImages
from ..datasets.image_identity import IDENTITY, identity_of
from ..datasets.image_reading import ImageReadError, decode_image
from ..datasets.loader_processes import explain_timeout, prepare_loaders
from ..datasets.transforms.teacher_crop import grid_of
from ..errors import UserOSError, UserRuntimeError, UserValueError
from ..system.outputs import format_bytes, whole_file, write_whole
from .teacher import Teacher

MAPS = "teacher_maps.bin"
"""The maps, float16 (N, M, D)."""
STATE = "teacher_maps.json"
"""What the maps are of, and how many the pass has done."""
IDENTITIES = "teacher_images.bin"
"""The identity of each image when the teacher saw it, int64 (N, 5)."""
COMPONENTS = "teacher_components.npz"
"""The mean of the cells (C,) and their principal components (D, C)."""
REMEDY = "delete {} to make the maps again, or choose another folder"
"""What helps if the maps are not those that are needed; to format with the path of ``STATE``."""
Seen = tuple[int, Tensor | ImageReadError, np.ndarray]
"""Index of an image, uint8 (3, h stride, w stride) or why it cannot be read, and its identity."""
SAMPLED = 1024
"""The components are computed from the cells of so many images."""
_BATCH = 8
_GPU_BATCH = 32
_SAVE_S = 10.0
_USUAL = (2.0**-4, 2.0**12)  # largest values of maps that float16, up to 65,504, holds well


class TeacherInputs(Dataset):
    """The images of a data set as a teacher sees them."""

    def __init__(self, images: UnlabeledImages, stride: int, num_cells: int) -> None:
        self.images = images
        self.stride = stride
        self.num_cells = num_cells

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Seen:
        stamp = self.images.stamp(index)
        data = None
        try:
            data = self.images.read_bytes(index)
            image = decode_image(data, self.images.get_data_info(index)["img_path"])
        except ImageReadError as error:
            return index, error, identity_of(stamp, data)

        grid = grid_of(image.shape[1], image.shape[2], self.num_cells)
        resized = resize(image, [side * self.stride for side in grid], antialias=True)
        return index, resized, identity_of(stamp, data)


def run_teacher(teacher: Teacher, batch: Sequence[Seen]) -> dict[int, np.ndarray]:
    """Return float32 maps (h w, C) by index, or (0, 1) if unreadable; images of one size together.

    Raises:
        RuntimeError: Too little memory.
        ValueError: A map has another grid than its image.
    """
    sizes: dict[torch.Size, list[tuple[int, Tensor]]] = {}
    found: dict[int, np.ndarray] = {}
    for index, image, _ in batch:
        found[index] = np.empty((0, 1), np.float32)
        if isinstance(image, Tensor):
            sizes.setdefault(image.shape, []).append((index, image))

    try:
        for (_, height, width), group in sizes.items():
            maps = teacher(torch.stack([image for _, image in group])).float().cpu()
            teacher.check_grid(maps, height, width)
            cells = maps.flatten(2).transpose(1, 2).numpy()
            found |= {index: each for (index, _), each in zip(group, cells, strict=True)}
    except torch.OutOfMemoryError as error:
        raise UserRuntimeError(
            f"the teacher {teacher.name} needs more memory than the device has; choose a smaller "
            "one, or lower teacher_px."
        ) from error
    return found


def pass_order(num_images: int) -> np.ndarray:
    """Return the images in the order in which a pass sees them."""
    return np.random.default_rng(0).permutation(num_images)


def run_pass(
    folder: Path,
    teacher: Teacher,
    images: UnlabeledImages,
    state: dict[str, Any],
    num_workers: int,
) -> None:
    """Finish a pass; its first images define the components."""
    done = state["done"]
    # A pass that begins leaves nothing of an earlier one.
    arrays = kept_arrays(folder, state)
    maps, identities = [_open(*array, "r+b" if done else "wb") for array in arrays]
    projection = _read_components(folder) if done else None
    sample: dict[int, np.ndarray] = {}
    loader: Any = DataLoader(
        TeacherInputs(images, teacher.stride, state["num_cells"]),
        _BATCH if next(teacher.parameters()).device.type == "cpu" else _GPU_BATCH,
        sampler=pass_order(len(images))[done:].tolist(),
        collate_fn=list,
        num_workers=num_workers,
    )
    what = f"maps of the teacher {teacher.name}"
    prepare_loaders({what: loader}, say)
    saved = time.perf_counter()
    start = saved - state["seconds"]

    for batch in _timed(loader, what):
        found = run_teacher(teacher, batch)
        done += len(batch)
        for index, image, identity in batch:
            identities[index] = identity
            if not isinstance(image, Tensor):
                images.note_unreadable(index, image)

        if projection is None:
            sample |= found
            if done < min(SAMPLED, len(images)):
                continue
            found = sample
            projection, state["variance"] = _fit(folder, sample, state["size"])
        _write_maps(maps, found, images, *projection)

        if done == len(images) or time.perf_counter() - saved > _SAVE_S:
            saved = time.perf_counter()
            maps.flush()
            identities.flush()
            state.update(done=done, seconds=saved - start)
            write_whole(folder / STATE, json.dumps(state, indent=2) + "\n")


def _timed(loader: DataLoader, what: str) -> Iterator[list[Seen]]:
    """Yield the batches with progress, and explain a loader that gives none."""
    with explain_timeout(lambda: what):
        yield from watch(loader, what)


def _write_maps(
    maps: np.ndarray,
    found: Mapping[int, np.ndarray],
    images: UnlabeledImages,
    mean: np.ndarray,
    components: np.ndarray,
) -> None:
    """Project maps on their components, and write them; unreadable images have zeros."""
    for index, cells in found.items():
        maps[index] = 0
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            maps[index, : len(cells)] = (cells - mean) @ components.T
        if not np.isfinite(maps[index]).all():
            raise UserValueError(
                f"a teacher's maps must be finite, and at most {np.finfo(np.float16).max:,.0f} on "
                "their components, but the map of "
                f"{on_one_line(images.get_data_info(index)['img_path'])} is not; choose another "
                "teacher."
            )


def kept_arrays(folder: Path, state: Mapping[str, Any]) -> list[tuple[Path, type, tuple[int, ...]]]:
    """Return file, type and shape of the maps and of the identities."""
    num_images = state["num_images"]
    return [
        (folder / MAPS, np.float16, (num_images, state["num_cells"], state["size"])),
        (folder / IDENTITIES, np.int64, (num_images, IDENTITY)),
    ]


def num_bytes_of(dtype: type, shape: tuple[int, ...]) -> int:
    """Return the bytes of an array."""
    return math.prod(shape) * np.dtype(dtype).itemsize


def _open(path: Path, dtype: type, shape: tuple[int, ...], mode: str) -> np.memmap:
    """Open a file with its disk space allocated: a full disk kills who writes to it."""
    num_bytes = num_bytes_of(dtype, shape)
    try:
        with path.open(mode) as file:
            os.posix_fallocate(file.fileno(), 0, num_bytes)
    except OSError as error:
        raise UserOSError(
            f"the teacher's maps need {format_bytes(num_bytes)} on the disk of "
            f"{path.parent} ({error.strerror}); free some, or lower teacher_px."
        ) from error
    return np.memmap(path, dtype, "r+", shape=shape)


def _read_components(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean (C,) and the components (D, C) of a pass that is resumed."""
    try:
        with np.load(folder / COMPONENTS) as kept:
            return kept["mean"], kept["components"]
    except Exception as error:  # damaged files raise almost any class
        raise UserValueError(
            f"{folder / COMPONENTS} must hold the components of the pass that is resumed, but "
            f"cannot be read ({type(error).__name__}); {REMEDY.format(folder / STATE)}."
        ) from error


def _fit(
    folder: Path, sample: Mapping[int, np.ndarray], size: int
) -> tuple[tuple[np.ndarray, np.ndarray], float]:
    """Write mean and components of a sample; return them, and their share of the variance.

    The components are multiplied by a power of two if float16 would hold the maps badly. Learning
    normalises each target, so nothing depends on it.
    """
    cells = np.concatenate([each for each in sample.values() if len(each)])
    mean, components, share = principal_components(cells, size)
    largest = np.abs((cells - mean) @ components.T).max()
    if not _USUAL[0] <= largest <= _USUAL[1]:
        components *= 2.0 ** -np.round(np.log2(largest))
    with whole_file(folder / COMPONENTS, "wb") as file:
        np.savez(file, mean=mean, components=components)
    return (mean, components), share


def principal_components(cells: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Return mean (C,), principal components (size, C) and their share of the variance of cells.

    ``cells`` is (R, C). In float64. The largest value of each component is positive; components
    beyond C are zeros.

    Raises:
        ValueError: Cells that are all alike, or not finite.
    """
    values = cells.astype(np.float64)
    mean = values.mean(axis=0)
    values -= mean
    covariance = values.T @ values / len(values)
    scale = float(mean @ mean) + np.trace(covariance)
    if not np.isfinite(scale) or np.trace(covariance) <= 1e-8 * scale:
        raise UserValueError(
            "a teacher's maps must be finite and differ from place to place, but these do not; "
            "choose trained weights."
        )

    variances, vectors = np.linalg.eigh(covariance)
    kept = vectors.T[::-1][:size]
    signs = np.sign(kept[np.arange(len(kept)), np.abs(kept).argmax(axis=1)])
    components = np.zeros((size, len(mean)))
    components[: len(kept)] = kept * signs[:, None]
    share = float(variances[::-1][:size].sum() / np.trace(covariance))
    return mean.astype(np.float32), components.astype(np.float32), share
