"""Predict a folder of images with a fine-tuned model, and write the predictions."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from mmengine.config import Config
from mmengine.dataset import Compose, pseudo_collate
from mmengine.registry import DefaultScope
from numpy.typing import NDArray
from PIL import Image

from ..config.run_config import run_config
from ..console.progress import watch
from ..console.quiet import quiet
from ..console.wording import on_one_line
from ..datasets import ImageReadError
from ..datasets.transforms.load_image import image_fields
from ..drawing.sheets import spread
from ..errors import UserFileExistsError, UserValueError
from ..features.extract import Images
from ..saving.run_files import existing_checkpoint
from ..system.locks import hold_work_dir, is_unused
from ..system.outputs import check_folder, whole_file, write_whole
from ..system.stopping import Interrupted, signals
from .config import task_of
from .model import load_model
from .tasks.task import Task, written_names

_READS_FILES = (
    "mmssprl.LoadImage",
    "LoadImageFromFile",  # in configs of older versions
    "LoadAnnotations",
    "mmssprl.LoadLabelMap",
)
_UNFINISHED = "unfinished.txt"
"""File in a folder of predictions until all images are predicted."""


def predict(
    run: str | Path,
    images: str | Path,
    out: str | Path,
    *,
    pictures: int = 100,
    log: Callable[[str], object] = print,
) -> str:
    """Predict all images below a folder.

    Predictions are written as they come. If SIGINT, SIGTERM or an error stops it, the files are
    whole, and unfinished.txt says how many images they hold. After a kill the rows are in a file
    NAME.PID.part, without the last few.

    Args:
        run: Work dir of ``finetune``, for its newest checkpoint, or a checkpoint.
        images: As for ``embed``: a folder, searched recursively, a tar file or an image.
        out: Folder for the predictions, new or empty: scores.csv, predictions.json (COCO) or
            masks, classes.txt, the pictures, and bad_images.txt if images cannot be read.
        pictures: Number of images, spread over all, to draw with their predictions.
        log: Receives a line before the predictions.

    Returns:
        A text that lists the files.

    Raises:
        FileExistsError: ``out`` holds files.
        FileNotFoundError: There is no such run or folder, or no image in it.
        RuntimeError: Another process writes to ``out``.
        ValueError: The run is no fine-tuning, or no image can be read.
    """
    if pictures < 0:
        raise UserValueError(f"pictures must be 0 or more, but got {pictures}.")
    out = check_folder(out, "out")
    _refuse_used(out)
    source = Images(images)
    names = source.names
    checkpoint = existing_checkpoint(run, "run")
    cfg = run_config(checkpoint.parent)
    task = task_of(cfg)
    model = load_model(cfg, checkpoint)
    about = f"{task.name}, {len(task.classes)} classes, {len(names)} images, {checkpoint}"
    log(f"{about}, model read from {cfg.filename}")
    if source.left_out:
        log(source.left_out)
    if Path(images).is_dir() and source.root.resolve() in out.resolve().parents:
        log(f"warning: {out} is in the folder of the images, and may be read with them next time.")

    drawn = {names[i] for i in spread(len(names), pictures)}
    in_scope = DefaultScope.overwrite_default_scope(cfg.default_scope)
    with _new_folder(out), quiet(), in_scope, torch.inference_mode(), signals.watched():
        signals.note("stopping after this image")
        try:
            found = _Predictions(cfg, model, source, task, drawn, out / "pictures")
            written = _write(out, found, task)
            number = signals.number
        finally:
            signals.interrupt()

    if not found.is_complete:
        if found.names:
            log(f"stopped: {found.about} {out} holds them; to predict all, give another folder.")
        raise found.error or Interrupted(number)
    if pictures:
        num = len(drawn & found.names)
        written.append(f"pictures of {num} images: {out / 'pictures'}")
    if found.bad:
        written.append(f"left out {len(found.bad)} unreadable images: {out / 'bad_images.txt'}")
    return "\n".join(written)


def _refuse_used(out: Path) -> None:
    if not is_unused(out):
        about = ""
        if (out / _UNFINISHED).is_file():
            about = " of a predict that did not finish"
        raise UserFileExistsError(
            f"out must be a new or empty folder, but {out} holds files{about}; give another, or "
            "delete it."
        )


@contextmanager
def _new_folder(out: Path) -> Iterator[None]:
    """Hold a new or empty folder while the block runs; one that stays empty is deleted."""
    is_new = not out.exists()
    try:
        with hold_work_dir(out):
            _refuse_used(out)  # another process may just have written there
            yield
    finally:
        with suppress(OSError):  # it has predictions
            if is_new:
                out.rmdir()


class _Predictions:
    """The predictions of readable images in turn, until a signal or an error."""

    def __init__(
        self,
        cfg: Config,
        model: Any,
        source: Images,
        task: Task,
        drawn: Collection[str],
        folder: Path,
    ) -> None:
        self.source = source
        self.names: set[str] = set()
        """Images that are predicted."""
        self.bad: list[str] = []
        """Why each of the others cannot be."""
        self.error: Exception | None = None
        self._model = model
        self._task = task
        self._drawn = drawn
        self._folder = folder
        steps = cfg.test_dataloader.dataset.pipeline
        self._pipeline = Compose([step for step in steps if step.type not in _READS_FILES])

    @property
    def is_complete(self) -> bool:
        """Whether all readable images are predicted."""
        return len(self.names) + len(self.bad) == len(self.source)

    @property
    def about(self) -> str:
        """How many images are predicted."""
        return f"{len(self.names):,} of {len(self.source):,} images are predicted."

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        try:
            yield from self._predict()
        except Exception as error:  # such as too little memory: what was predicted is kept
            self.error = error

    def _predict(self) -> Iterator[tuple[str, Any]]:
        names = self.source.names
        picture_of = written_names(names, ".jpg")
        for index, name in enumerate(watch(names, "predicting", total=len(names))):
            if signals.number:
                return
            try:
                image = self.source.load(index)
                fields = self._pipeline(image_fields(image))
            except ImageReadError as error:
                self.bad.append(str(error))
                continue
            except cv2.error as error:  # a side would become 0
                height, width = image.shape[1:]
                reason = " ".join(str(error).split())
                self.bad.append(f"{name}: {width} x {height} px cannot be resized ({reason}).")
                continue

            (sample,) = self._model.test_step(pseudo_collate([fields]))
            if name in self._drawn:
                picture = self._task.draw(image.permute(1, 2, 0).contiguous().numpy(), sample)
                _write_picture(self._folder / picture_of[name], picture)
            self.names.add(name)
            signals.progress()
            yield name, self._task.read(sample)


def _write(out: Path, found: _Predictions, task: Task) -> list[str]:
    """Write predictions while they are made; return a line per output.

    Raises:
        ValueError: No image can be read.
    """
    predictions = iter(found)
    first = next(predictions, None)
    names = found.source.names
    if first is None:
        if not found.is_complete:
            return []
        raise UserValueError(f"none of {len(names)} images can be read; the first: {found.bad[0]}")

    out.mkdir(parents=True, exist_ok=True)
    unfinished = out / _UNFINISHED
    write_whole(unfinished, f"less than {len(names):,} images are predicted.\n")
    written = task.write(out, names, chain([first], predictions))
    write_whole(out / "classes.txt", "".join(f"{on_one_line(name)}\n" for name in task.classes))
    if found.bad:
        write_whole(out / "bad_images.txt", "\n".join(found.bad) + "\n")
    if found.is_complete:
        unfinished.unlink()
    else:
        write_whole(unfinished, f"{found.about}\n")
    return written


def _write_picture(path: Path, picture: NDArray[np.uint8]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path, "wb") as file:
        Image.fromarray(picture).save(file, format="JPEG")
