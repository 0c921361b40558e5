"""Predict a folder of images with a fine-tuned model, and write what it found."""

from collections.abc import Callable
from pathlib import Path

from ..config.found_config import found_config
from ..console.progress import watch
from ..console.tables import markdown_table
from ..console.wording import on_one_line
from ..datasets import ImageReadError
from ..datasets.image_index import heic_remedy, index_images
from ..errors import UserFileExistsError, UserFileNotFoundError, UserValueError
from ..saving.newest_checkpoint import require_newest
from ..system.outputs import write_whole
from .pictures import open_picture, save_picture, written_names
from .predictor import Predictor

DEFAULT_PICTURES = 100
_MOST_ROWS = 30
"""Classes in the table that is printed; the files have all."""


def predict(
    run: str | Path,
    images: str | Path,
    out: str | Path,
    *,
    pictures: int = DEFAULT_PICTURES,
    log: Callable[[str], object] = print,
) -> str:
    """Predict all images below a folder.

    Args:
        run: Work dir of ``finetune``, of which the newest checkpoint is taken, or a checkpoint.
        images: Folder, searched recursively.
        out: Folder for the predictions, new or empty: scores.csv, predictions.json (COCO) or
            masks, classes.txt, the pictures, and bad_images.txt if images cannot be read.
        pictures: So many images, the first by name, are drawn with their predictions.
        log: Receives a line of what is going to be done.

    Returns:
        What was found and written, as text.

    Raises:
        FileExistsError: ``out`` holds files.
        FileNotFoundError: No such run or folder, or no image in it.
        ValueError: A run of something else, or no image that can be read.
    """
    if pictures < 0:
        raise UserValueError(f"pictures must be at least 0, but got {pictures}.")
    out, images = Path(out), Path(images)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserFileExistsError(f"out must be a new or empty folder, but {out} is not.")
    if not images.is_dir():
        raise UserFileNotFoundError(f"images must be an existing folder, but there is no {images}.")
    index = index_images(str(images))
    names = list(index.names)
    if not names:
        remedy = heic_remedy(index.skipped) or "correct the path"
        raise UserFileNotFoundError(
            f"images must be a folder of some, but found none below {images}; {remedy}."
        )
    if not Path(run).exists():
        raise UserFileNotFoundError(
            f"run must be a work dir of `finetune` or a checkpoint in it, but there is no {run}."
        )
    checkpoint = require_newest(run) if Path(run).is_dir() else Path(run)
    cfg = found_config(checkpoint.parent)
    predictor = Predictor(cfg, checkpoint)
    task = predictor.task
    about = f"{task.name}, {len(task.classes)} classes, {len(names)} images, {checkpoint}"
    log(f"{about}, model read from {cfg.filename}")
    good: list[str] = []
    bad: list[str] = []
    predictions = []
    picture_of = written_names(names, ".jpg")
    found = predictor.predict([images / name for name in names])
    for name, sample in zip(names, watch(found, "predicting", total=len(names)), strict=True):
        if isinstance(sample, ImageReadError):
            bad.append(str(sample))
            continue
        if len(good) < pictures:
            path = out / "pictures" / picture_of[name]
            path.parent.mkdir(parents=True, exist_ok=True)
            save_picture(task.draw(open_picture(images / name), sample), path)
        good.append(name)
        predictions.append(task.read(sample))
    if not good:
        raise UserValueError(f"some image must be readable, but none of {len(names)} is: {bad[0]}")
    out.mkdir(parents=True, exist_ok=True)
    written = task.write(out, good, predictions)
    write_whole(out / "classes.txt", "".join(f"{on_one_line(name)}\n" for name in task.classes))
    if pictures:
        written.append(f"pictures of {min(pictures, len(good))} images: {out / 'pictures'}")
    if bad:
        write_whole(out / "bad_images.txt", "\n".join(bad) + "\n")
        written.append(f"left out {len(bad)} images that cannot be read: {out / 'bad_images.txt'}")
    counts = task.found(predictions)
    order = sorted(range(len(counts)), key=lambda k: -counts[k])
    rows = [[task.classes[k], str(counts[k])] for k in order if counts[k]]
    if len(rows) > _MOST_ROWS:
        rows = [*rows[:_MOST_ROWS], [f"({len(rows) - _MOST_ROWS} more classes)", ""]]
    table = markdown_table(["class", "images"], rows) if rows else "no class was found for sure."
    return "\n".join([table, "", *written])
