"""A teacher's maps of whole images, and the hook that keeps them before a training."""

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.config import Config
from mmengine.device import get_device
from mmengine.hooks import Hook
from mmengine.runner import Runner

from ..config.hooks import find_hook
from ..console.log_line import LogLine
from ..console.wording import on_one_line, wrapped
from ..datasets import UnlabeledImages
from ..datasets.image_identity import IDENTITY, find_changed, stamps_of
from ..datasets.transforms.teacher_crop import TeacherCrop
from ..errors import UserFileExistsError, UserValueError, refuse_damaged
from ..models.unwrap import unwrap
from ..registry import HOOKS
from ..system.locks import wait_for
from .teacher import Teacher, load_teacher
from .teacher_pass import (
    IDENTITIES,
    MAPS,
    REMEDY,
    SAMPLED,
    STATE,
    TeacherInputs,
    kept_arrays,
    num_bytes_of,
    pass_order,
    run_pass,
    run_teacher,
)

TEACHER_PX = 224
_TIMED = 8  # images of a forecast


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
        self.teacher = teacher
        self.teacher_px = teacher_px
        self.folder = folder
        self.seconds = 0.0  # that the pass took, in this run or an earlier one

    def before_train(self, runner: Runner) -> None:
        """Write the maps, or find them, and hand them to the transform that cuts the views."""
        loader = runner.train_dataloader
        model = unwrap(runner.model)
        crops = [
            each for each in loader.dataset.pipeline.transforms if isinstance(each, TeacherCrop)
        ]
        head = getattr(model, "teacher_head", None)
        if head is None or not crops:
            raise UserValueError(
                "TeacherHook needs a model that learns from a teacher, such as "
                "'PyramidDistillation', and type='TeacherCrop' in "
                "train_dataloader.dataset.pipeline, but got "
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
        crops[0].take_maps(folder / MAPS, state["num_cells"], size)

        text = (
            f"teacher {state['teacher']}: {state['done']:,} images in {state['seconds']:.0f} s; "
            f"{size} components hold {state['variance']:.0%} of the variance of the "
            f"{min(SAMPLED, state['done']):,} images that chose them"
        )
        runner.logger.info(LogLine(text, wrapped(text)))


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

    M is the most cells of a map, D the principal components, C the channels of the teacher's map.

    Returns:
        The description of the maps: 'num_cells' M, 'seconds' of the pass, 'variance', the share of
        the variance that the components hold, and others.

    Raises:
        FileExistsError: The folder has maps of other images, also of other bytes under the same
            names, or of another teacher.
        OSError: Too little room on the disk.
        RuntimeError: Too many images are unreadable, or too little memory.
        ValueError: Maps that do not vary, are not finite or have another grid; a file of the maps
            is damaged or gone.
    """
    about = {
        **teacher.about(),
        "num_images": len(images),
        "teacher_px": px,
        "num_cells": teacher.num_cells(px),
        "size": size,
    }
    state = {**about, "teacher": teacher.name, "answer": teacher.answer, "done": 0, "seconds": 0.0}
    # Before the lock: a network drive may need minutes, and the processes of a node wait at once.
    stamps = stamps_of(images.stamp, len(images))

    folder.mkdir(parents=True, exist_ok=True)
    with wait_for(folder / MAPS):
        file = folder / STATE
        if file.is_file():
            with refuse_damaged(file, "the description of a teacher's maps", "delete it"):
                state = dict(json.loads(file.read_text()))
            _check_description(folder, state, about, teacher)
            _check_files(folder, state)
            _check_images(folder, state, images, stamps)

        if state["done"] < len(images):
            run_pass(folder, teacher, images, state, num_workers)
            _check_files(folder, state)  # one may have been deleted in between
    return state


def _check_description(
    folder: Path, state: dict[str, Any], about: dict[str, Any], teacher: Teacher
) -> None:
    """Refuse maps of other images, sizes or teachers; the path of the teacher's file may differ."""
    others = [key for key, value in about.items() if state.get(key) != value]
    if "answer" not in state:
        others = ["its version, an older one that did not note the images"]
    elif not others and not teacher.answers(state["answer"]):
        others = ["the answer to a fixed image"]
    if others:
        raise UserFileExistsError(
            f"{folder / MAPS} must be of these images and this teacher, but differs in "
            f"{', '.join(others)}; {REMEDY.format(folder / STATE)}."
        )


def _check_files(folder: Path, state: dict[str, Any]) -> None:
    """Refuse maps or identities that are gone or cut."""
    for path, dtype, shape in kept_arrays(folder, state):
        num_bytes = num_bytes_of(dtype, shape)
        found = path.stat().st_size if path.is_file() else None
        if found != num_bytes:
            what = "is gone" if found is None else f"has {found:,}"
            raise UserValueError(
                f"{path} must have {num_bytes:,} bytes, but {what}; "
                f"{REMEDY.format(folder / STATE)}."
            )


def _check_images(
    folder: Path, state: dict[str, Any], images: UnlabeledImages, stamps: np.ndarray
) -> None:
    """Refuse maps if images have other bytes now than when the teacher saw them."""
    seen = np.sort(pass_order(len(images))[: state["done"]])
    identities = np.memmap(folder / IDENTITIES, np.int64, "r+").reshape(-1, IDENTITY)
    kept = identities[seen]
    changed = find_changed(kept, stamps[seen], lambda row: images.read_bytes(int(seen[row])))
    if changed:
        first = images.get_data_info(int(seen[changed[0]]))["img_path"]
        raise UserFileExistsError(
            f"{folder / MAPS} must be of these images, but the bytes of {len(changed):,} of "
            f"{len(images):,} have changed since the teacher saw them, first "
            f"{on_one_line(first)}; {REMEDY.format(folder / STATE)}."
        )
    # The times of a copied folder, which is read once. After a kill some are new: all are true.
    identities[seen] = kept


def forecast_pass(teacher: Teacher, cfg: Config, images: UnlabeledImages) -> tuple[float, int]:
    """Return the seconds of a teacher's pass, timed on a few images, and the bytes of its file."""
    hook = find_hook(cfg, "TeacherHook")
    num = len(images)
    teacher = teacher.to(get_device())
    num_cells = teacher.num_cells(hook.get("teacher_px", TEACHER_PX))
    inputs = TeacherInputs(images, teacher.stride, num_cells)
    places = np.linspace(0, num - 1, min(num, _TIMED)).astype(int).tolist()

    run_teacher(teacher, [inputs[places[0]]])
    start = time.perf_counter()
    run_teacher(teacher, [inputs[place] for place in places])
    seconds = (time.perf_counter() - start) * num / len(places)
    size = cfg.model.get("anchor_neck", cfg.model.neck).out_channels
    return seconds, 2 * num * num_cells * size
