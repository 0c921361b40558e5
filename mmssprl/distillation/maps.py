"""What a teacher has seen of whole images, kept in one file, and the hook that makes it.

Legend: C channels of the teacher's map, h, w its rows and columns, M the most cells of a map, D
components, N images of the data set.
"""

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms.v2.functional import resize

from ..console.log_line import LogLine
from ..console.progress import watch
from ..console.wording import wrapped
from ..datasets import UnlabeledImages
from ..datasets.image_reading import ImageReadError
from ..datasets.transforms.teacher_crop import TeacherCrop, grid_of
from ..errors import UserFileExistsError, UserOSError, UserRuntimeError, UserValueError
from ..models import PyramidDistillation
from ..models.unwrap import unwrap
from ..registry import HOOKS
from ..system.outputs import format_bytes, whole_file, write_whole
from .teacher import Teacher, load_teacher

MAPS, STATE = "teacher_maps.bin", "teacher_maps.json"
"""Files of float16 (N, M, D), and of what they are; beside them the components and a lock."""
TEACHER_PX = 224
_BATCH = 32
_SAMPLED = 32 * _BATCH
"""Images of whose cells the components are."""
_AT_ONCE = 8
"""Images that a CPU runs at a time: of more the memory is torn to pieces."""
_SAVE_S = 10.0
_TIMED = 8


@HOOKS.register_module()
class TeacherHook(Hook):
    """Let a teacher look at each image once, before a pyramid distillation.

    Its maps are kept in ``folder``. A resumed run, or another one on the same images with the same
    folder, finds them there. The first process of a node makes them, the others wait.

    Args:
        teacher: Weights, see ``load_teacher``.
        teacher_px: The teacher sees an image resized to about this squared, with its aspect.
        folder: Folder of the maps; None is the work dir.
        blank: Give maps that say nothing, to time steps.

    Raises:
        ValueError: When the training starts, another model or pipeline, or as ``keep_maps``.
    """

    def __init__(
        self,
        teacher: str = "supervised",
        teacher_px: int = TEACHER_PX,
        folder: str | None = None,
        blank: bool = False,
    ) -> None:
        self.teacher, self.teacher_px = teacher, teacher_px
        self.folder, self.blank = folder, blank
        self.seconds = 0.0  # of the pass, whenever it was

    def before_train(self, runner: Runner) -> None:
        """Make the maps, or find them, and hand them to what cuts the views."""
        loader, model = runner.train_dataloader, unwrap(runner.model)
        crops = [
            each for each in loader.dataset.pipeline.transforms if isinstance(each, TeacherCrop)
        ]
        if not isinstance(model, PyramidDistillation) or not crops:
            raise UserValueError(
                "TeacherHook needs model.type='PyramidDistillation' and type='TeacherCrop' in "
                f"train_dataloader.dataset.pipeline, but got {type(model).__name__} and "
                f"{len(crops)} such transforms; set both, or leave the hook out."
            )
        if self.blank:
            cells = (self.teacher_px // 32) ** 2
            crops[0].take_maps(None, len(loader.dataset), cells, model.size)
            return
        folder = Path(self.folder or runner.work_dir)
        options = {"px": self.teacher_px, "size": model.size, "num_workers": loader.num_workers}
        # The training is the same whether the maps are there or not.
        with torch.random.fork_rng(devices=[]):
            teacher = load_teacher(self.teacher).to(next(model.parameters()).device)
            state = keep_maps(folder, teacher, loader.dataset, **options)
        self.seconds = state["seconds"]
        text = (
            f"teacher {state['teacher']}: {state['done']:,} images in {state['seconds']:.0f} s; "
            f"{model.size} components hold {state['variance']:.0%} of its maps' variance"
        )
        runner.logger.info(LogLine(text, wrapped(text)))
        crops[0].take_maps(folder / MAPS, len(loader.dataset), state["num_cells"], model.size)


def keep_maps(
    folder: Path,
    teacher: Teacher,
    images: UnlabeledImages,
    *,
    px: int,
    size: int,
    num_workers: int = 0,
) -> dict[str, Any]:
    """Run a teacher over images once, and keep its maps on ``size`` D principal components.

    Of a teacher of fewer channels the rest are zeros. What a killed pass has done is kept, and the
    rest of it gives an equal file. Images that cannot be read have zeros.

    Returns:
        What the maps are of, 'num_cells' M, 'seconds' of the pass, and 'variance', the share of it
        that the components hold.

    Raises:
        FileExistsError: The folder has maps of other images or of another teacher.
        OSError: Too little room on the disk.
        ValueError: Maps that do not vary, or are not finite.
    """
    about = {
        "teacher": teacher.name,
        "weights": teacher.digest(),
        "images": images.fingerprint(),
        "teacher_px": px,
        "num_cells": teacher.num_cells(px),
        "size": size,
    }
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / f"{MAPS}.lock"):
        file = folder / STATE
        state: dict[str, Any] = {**about, "done": 0}
        if file.is_file():
            state = json.loads(file.read_text())
        del about["teacher"]  # its name says where it lies
        others = [key for key, value in about.items() if state.get(key) != value]
        if others:
            raise UserFileExistsError(
                f"{folder / MAPS} must be of these images and this teacher, but {', '.join(others)}"
                f" differ; delete {file}, or give another folder."
            )
        if state["done"] < len(images):
            _look(folder, teacher, images, state, num_workers)
    return state


def forecast_pass(
    teacher: Teacher, images: UnlabeledImages, px: int, size: int
) -> tuple[float, int]:
    """Return seconds of a teacher's pass, by a few images, and the bytes of its file."""
    inputs, num = _Inputs(images, teacher.stride, teacher.num_cells(px)), len(images)
    places = np.linspace(0, num - 1, min(num, _TIMED)).astype(int).tolist()
    _run(teacher, [inputs[places[0]]])
    start = time.perf_counter()
    _run(teacher, [inputs[place] for place in places])
    seconds = (time.perf_counter() - start) * num / len(places)
    return seconds, 2 * num * teacher.num_cells(px) * size


class _Inputs(Dataset):
    """Images as the teacher sees them: index and uint8 (3, h stride, w stride), or None."""

    def __init__(self, images: UnlabeledImages, stride: int, num_cells: int) -> None:
        self.images, self.stride, self.num_cells = images, stride, num_cells

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[int, Tensor | None]:
        try:
            image = self.images.load_image(index)
        except ImageReadError:  # training replaces it
            return index, None
        grid = grid_of(image.shape[1], image.shape[2], self.num_cells)
        return index, resize(image, [side * self.stride for side in grid], antialias=True)


def _run(teacher: Teacher, batch: Sequence[tuple[int, Tensor | None]]) -> dict[int, np.ndarray]:
    """Return maps (h w, C) of float32 by index; images of one size run together."""
    sizes: dict[torch.Size, list[tuple[int, Tensor]]] = {}
    for index, image in batch:
        if image is not None:
            sizes.setdefault(image.shape, []).append((index, image))
    found: dict[int, np.ndarray] = {}
    try:
        for group in sizes.values():
            most = _AT_ONCE if next(teacher.parameters()).device.type == "cpu" else len(group)
            parts = torch.stack([image for _, image in group]).split(most)
            cells = torch.cat([teacher(part).float().cpu() for part in parts]).flatten(2)
            maps = cells.transpose(1, 2).numpy()
            found |= {index: each for (index, _), each in zip(group, maps, strict=True)}
    except torch.OutOfMemoryError as error:
        raise UserRuntimeError(
            f"the teacher {teacher.name} needs more memory than the device has; give a smaller "
            "one, or lower teacher_px."
        ) from error
    return found


def _look(
    folder: Path,
    teacher: Teacher,
    images: UnlabeledImages,
    state: dict[str, Any],
    num_workers: int,
) -> None:
    """Do what is left of a pass, in a random order: the first images tell the components."""
    shape, done = (len(images), state["num_cells"], state["size"]), state["done"]
    maps, file = _open(folder / MAPS, shape), folder / "teacher_components.npz"
    order = np.random.default_rng(0).permutation(len(images))[done:].tolist()
    inputs = _Inputs(images, teacher.stride, state["num_cells"])
    loader: Any = DataLoader(
        inputs, _BATCH, sampler=order, collate_fn=list, num_workers=num_workers
    )
    start = saved = time.perf_counter()
    before, sample = state.get("seconds", 0.0), dict[int, np.ndarray]()
    mean, components = np.load(file).values() if done else (None, None)

    def save() -> None:
        maps.flush()
        state.update(done=done, seconds=before + time.perf_counter() - start)
        write_whole(folder / STATE, json.dumps(state, indent=2) + "\n")

    for batch in watch(loader, f"{teacher.name} looks at the images"):
        found = _run(teacher, batch)
        done += len(batch)
        if components is None:
            sample |= found
            if done < min(_SAMPLED, len(images)):
                continue
            found = sample
            mean, components, state["variance"] = principal_components(
                np.concatenate([*sample.values()]), state["size"]
            )
            with whole_file(file, "wb") as out:
                np.savez(out, mean=mean, components=components)
        for index, cells in found.items():
            maps[index, : len(cells)] = (cells - mean) @ components.T
        if time.perf_counter() - saved > _SAVE_S:
            save()
            saved = time.perf_counter()
    save()


def _open(path: Path, shape: tuple[int, int, int]) -> np.memmap:
    """Open a file of float16 with all its room on the disk, which else could kill the process."""
    num_bytes = 2 * int(np.prod(shape))
    try:
        with path.open("ab") as file:
            os.posix_fallocate(file.fileno(), 0, num_bytes)
    except OSError as error:
        raise UserOSError(
            f"the teacher's maps need {format_bytes(num_bytes)} on the disk of "
            f"{path.parent} ({error.strerror}); make room, or lower teacher_px."
        ) from error
    return np.memmap(path, np.float16, "r+", shape=shape)


def principal_components(cells: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Return mean (C,) and principal components (size, C) of cells (R, C), and their share.

    In float64. The largest value of each component is positive; components beyond C are zeros.

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
            "give weights that are trained."
        )
    variances, vectors = np.linalg.eigh(covariance)
    kept = vectors.T[::-1][:size]
    signs = np.sign(kept[np.arange(len(kept)), np.abs(kept).argmax(axis=1)])
    components = np.zeros((size, len(mean)))
    components[: len(kept)] = kept * signs[:, None]
    share = float(variances[::-1][:size].sum() / np.trace(covariance))
    return mean.astype(np.float32), components.astype(np.float32), share
