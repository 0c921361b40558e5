"""A teacher's maps of whole images in one file, and the hook that writes it.

Legend: C channels of the teacher's map, h, w its rows and columns, M the most cells of a map, D
principal components, N images of the data set.
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
from mmengine.config import Config
from mmengine.device import get_device
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
from ..models.unwrap import unwrap
from ..registry import HOOKS
from ..system.outputs import format_bytes, whole_file, write_whole
from .teacher import Teacher, load_teacher

MAPS, STATE = "teacher_maps.bin", "teacher_maps.json"
"""The maps, float16 (N, M, D), and their description."""
TEACHER_PX = 224
_BATCH, _GPU_BATCH = 8, 32
_SAMPLED = 1024  # images whose cells define the components
_SAVE_S = 10.0
_TIMED = 8


@HOOKS.register_module()
class TeacherHook(Hook):
    """Run a teacher over each image once, before a training that learns from its maps.

    Its maps are kept in ``folder``, where a resumed run, or another run on the same images, finds
    them. The first process of a node writes them, the others wait.

    Args:
        teacher: Weights, see ``load_teacher``; None gives constant maps, to time steps.
        teacher_px: Images are resized to about this squared for the teacher, with their aspect.
        folder: Folder of the maps; None is the work dir.

    Raises:
        ValueError: When the training starts: another model or pipeline, or as ``keep_maps``.
    """

    def __init__(
        self,
        teacher: str | None = "supervised",
        teacher_px: int = TEACHER_PX,
        folder: str | None = None,
    ) -> None:
        self.teacher, self.teacher_px, self.folder = teacher, teacher_px, folder
        self.seconds = 0.0  # that the pass took, in this run or an earlier one

    def before_train(self, runner: Runner) -> None:
        """Write the maps, or find them, and hand them to the transform that cuts the views."""
        loader, model = runner.train_dataloader, unwrap(runner.model)
        crops = [
            each for each in loader.dataset.pipeline.transforms if isinstance(each, TeacherCrop)
        ]
        head = getattr(model, "teacher_head", None)
        if head is None or not crops:
            raise UserValueError(
                "TeacherHook needs model.type 'PyramidDistillation' or 'AnchoredSSPRL', and "
                "type='TeacherCrop' in train_dataloader.dataset.pipeline, but got "
                f"{type(model).__name__} and {len(crops)} such transforms; set what is missing."
            )
        size = head.size
        if self.teacher is None:
            crops[0].take_maps(None, (self.teacher_px // 32) ** 2, size)
            return
        folder = Path(self.folder or runner.work_dir)
        options = {"px": self.teacher_px, "size": size, "num_workers": loader.num_workers}
        # The training is the same whether the maps exist or not.
        with torch.random.fork_rng(devices=[]):
            teacher = load_teacher(self.teacher, runner.cfg).to(next(model.parameters()).device)
            state = keep_maps(folder, teacher, loader.dataset, **options)
        self.seconds = state["seconds"]
        text = (
            f"teacher {state['teacher']}: {state['done']:,} images in {state['seconds']:.0f} s; "
            f"{size} components hold {state['variance']:.0%} of its maps' variance"
        )
        runner.logger.info(LogLine(text, wrapped(text)))
        crops[0].take_maps(folder / MAPS, state["num_cells"], size)


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

    If C < D the rest are zeros, as are the maps of images that cannot be read. A killed pass is
    resumed and gives the same file.

    Returns:
        The description of the maps: 'num_cells' M, 'seconds' of the pass, 'variance', the share of
        the variance that the components hold, and others.

    Raises:
        FileExistsError: The folder has maps of other images or of another teacher.
        OSError: Too little room on the disk.
        ValueError: Maps that do not vary, or are not finite.
    """
    about = {
        "weights": teacher.digest(),
        "images": images.fingerprint(),
        "teacher_px": px,
        "num_cells": teacher.num_cells(px),
        "size": size,
    }
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / f"{MAPS}.lock"):
        file = folder / STATE
        state: dict[str, Any] = {"teacher": teacher.name, **about, "done": 0, "seconds": 0.0}
        if file.is_file():
            state = json.loads(file.read_text())  # the teacher's path may differ
        others = [key for key, value in about.items() if state.get(key) != value]
        if others:
            raise UserFileExistsError(
                f"{folder / MAPS} must be of these images and this teacher, but {', '.join(others)}"
                f" differ; delete {file}, or choose another folder."
            )
        if state["done"] < len(images):
            _run_pass(folder, teacher, images, state, num_workers)
    return state


def teacher_hook(cfg: Config) -> Any:
    """Return the config of a training's ``TeacherHook``, or None."""
    return next((hook for hook in cfg.custom_hooks if hook["type"] == "TeacherHook"), None)


def forecast_pass(cfg: Config, images: UnlabeledImages) -> tuple[float, int]:
    """Return the seconds of a teacher's pass, timed on a few images, and the bytes of its file."""
    hook, num = teacher_hook(cfg), len(images)
    teacher = load_teacher(hook.teacher, cfg).to(get_device())
    num_cells = teacher.num_cells(hook.get("teacher_px", TEACHER_PX))
    inputs = _Inputs(images, teacher.stride, num_cells)
    places = np.linspace(0, num - 1, min(num, _TIMED)).astype(int).tolist()
    _run(teacher, [inputs[places[0]]])
    start = time.perf_counter()
    _run(teacher, [inputs[place] for place in places])
    seconds = (time.perf_counter() - start) * num / len(places)
    size = cfg.model.get("anchor_neck", cfg.model.neck).out_channels
    return seconds, 2 * num * num_cells * size


class _Inputs(Dataset):
    """Indices and uint8 images (3, h stride, w stride) for a teacher, or None if unreadable."""

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
    """Return float32 maps (h w, C) by index; images of one size run together."""
    sizes: dict[torch.Size, list[tuple[int, Tensor]]] = {}
    for index, image in batch:
        if image is not None:
            sizes.setdefault(image.shape, []).append((index, image))
    found: dict[int, np.ndarray] = {}
    try:
        for group in sizes.values():
            maps = teacher(torch.stack([image for _, image in group])).float().cpu()
            cells = maps.flatten(2).transpose(1, 2).numpy()
            found |= {index: each for (index, _), each in zip(group, cells, strict=True)}
    except torch.OutOfMemoryError as error:
        raise UserRuntimeError(
            f"the teacher {teacher.name} needs more memory than the device has; choose a smaller "
            "one, or lower teacher_px."
        ) from error
    return found


def _run_pass(
    folder: Path,
    teacher: Teacher,
    images: UnlabeledImages,
    state: dict[str, Any],
    num_workers: int,
) -> None:
    """Finish a pass, in a random order; the components are those of the first images."""
    shape, done = (len(images), state["num_cells"], state["size"]), state["done"]
    maps, file = _open(folder / MAPS, shape), folder / "teacher_components.npz"
    mean, components = np.load(file).values() if done else (None, None)
    sample: dict[int, np.ndarray] = {}
    order = np.random.default_rng(0).permutation(len(images))[done:].tolist()
    inputs = _Inputs(images, teacher.stride, state["num_cells"])
    batch_size = _BATCH if next(teacher.parameters()).device.type == "cpu" else _GPU_BATCH
    loader: Any = DataLoader(
        inputs, batch_size, sampler=order, collate_fn=list, num_workers=num_workers
    )
    saved = time.perf_counter()
    start = saved - state["seconds"]
    for batch in watch(loader, f"maps of the teacher {teacher.name}"):
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
        if done == len(images) or time.perf_counter() - saved > _SAVE_S:
            saved = time.perf_counter()
            maps.flush()
            state.update(done=done, seconds=saved - start)
            write_whole(folder / STATE, json.dumps(state, indent=2) + "\n")


def _open(path: Path, shape: tuple[int, int, int]) -> np.memmap:
    """Open a float16 file with its disk space allocated: a full disk kills who writes to it."""
    num_bytes = 2 * int(np.prod(shape))
    try:
        with path.open("ab") as file:
            os.posix_fallocate(file.fileno(), 0, num_bytes)
    except OSError as error:
        raise UserOSError(
            f"the teacher's maps need {format_bytes(num_bytes)} on the disk of "
            f"{path.parent} ({error.strerror}); free some, or lower teacher_px."
        ) from error
    return np.memmap(path, np.float16, "r+", shape=shape)


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
