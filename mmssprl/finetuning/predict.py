"""Predict a folder of images with a fine-tuned model, and write the predictions."""

from collections.abc import Callable, Collection
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
from ..system.locks import is_unused
from ..system.outputs import check_folder, whole_file, write_whole
from .config import task_of
from .model import load_model
from .tasks.task import Task, written_names

_READS_FILES = (
    "mmssprl.LoadImage",
    "LoadImageFromFile",  # in configs of older versions
    "LoadAnnotations",
    "mmssprl.LoadLabelMap",
)


def predict(
    run: str | Path,
    images: str | Path,
    out: str | Path,
    *,
    pictures: int = 100,
    log: Callable[[str], object] = print,
) -> str:
    """Predict all images below a folder.

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
        ValueError: The run is no fine-tuning, or no image can be read.
    """
    if pictures < 0:
        raise UserValueError(f"pictures must be 0 or more, but got {pictures}.")
    out = check_folder(out, "out")
    if not is_unused(out):
        raise UserFileExistsError(f"out must be a new or empty folder, but {out} holds files.")
    source = Images(images)
    names = source.names
    checkpoint = existing_checkpoint(run, "run")
    cfg = run_config(checkpoint.parent)
    task = task_of(cfg)
    model = load_model(cfg, checkpoint)
    about = f"{task.name}, {len(task.classes)} classes, {len(names)} images, {checkpoint}"
    log(f"{about}, model read from {cfg.filename}")

    drawn = {names[i] for i in spread(len(names), pictures)}
    with quiet(), DefaultScope.overwrite_default_scope(cfg.default_scope), torch.inference_mode():
        predictions, bad = _predict_all(cfg, model, source, task, drawn, out / "pictures")
    if not predictions:
        raise UserValueError(f"none of {len(names)} images can be read; the first: {bad[0]}")

    out.mkdir(parents=True, exist_ok=True)
    written = task.write(out, [*predictions], [*predictions.values()])
    write_whole(out / "classes.txt", "".join(f"{on_one_line(name)}\n" for name in task.classes))
    if pictures:
        num = len(drawn & predictions.keys())
        written.append(f"pictures of {num} images: {out / 'pictures'}")
    if bad:
        write_whole(out / "bad_images.txt", "\n".join(bad) + "\n")
        written.append(f"left out {len(bad)} unreadable images: {out / 'bad_images.txt'}")
    return "\n".join(written)


def _predict_all(
    cfg: Config, model: Any, source: Images, task: Task, drawn: Collection[str], folder: Path
) -> tuple[dict[str, Any], list[str]]:
    """Return the prediction of each image and what cannot be read; draw some into a folder."""
    bad: list[str] = []
    predictions: dict[str, Any] = {}
    picture_of = written_names(source.names, ".jpg")
    steps = cfg.test_dataloader.dataset.pipeline
    pipeline = Compose([step for step in steps if step.type not in _READS_FILES])

    for index, name in enumerate(watch(source.names, "predicting", total=len(source.names))):
        try:
            image = source.load(index)
            fields = pipeline(image_fields(image))
        except ImageReadError as error:
            bad.append(str(error))
            continue
        except cv2.error as error:  # a side would become 0
            height, width = image.shape[1:]
            reason = " ".join(str(error).split())
            bad.append(f"{name}: {width} x {height} px cannot be resized ({reason}).")
            continue
        (sample,) = model.test_step(pseudo_collate([fields]))
        if name in drawn:
            picture = task.draw(image.permute(1, 2, 0).contiguous().numpy(), sample)
            _write_picture(folder / picture_of[name], picture)
        predictions[name] = task.read(sample)
    return predictions, bad


def _write_picture(path: Path, picture: NDArray[np.uint8]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path, "wb") as file:
        Image.fromarray(picture).save(file, format="JPEG")
