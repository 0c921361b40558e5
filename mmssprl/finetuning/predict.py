"""Predict a folder of images with a fine-tuned model, and write what it found."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.config import Config
from mmengine.dataset import Compose, pseudo_collate
from mmengine.device import get_device
from mmengine.registry import DefaultScope
from numpy.typing import NDArray
from PIL import Image

from ..config.build_errors import explain_build_errors
from ..config.run_config import run_config
from ..console.paths import check_path
from ..console.progress import watch
from ..console.quiet import import_quietly
from ..console.wording import on_one_line
from ..datasets import ImageReadError, read_image
from ..datasets.image_index import IMAGE_SUFFIXES, heic_remedy, index_images
from ..errors import UserFileExistsError, UserFileNotFoundError, UserValueError
from ..features.contact_sheet import spread
from ..saving.work_dir import existing_checkpoint
from ..system.one_run import is_unused
from ..system.outputs import check_folder, whole_file, write_whole
from ..weights import read_checkpoint
from ..weights.backbone import build_model, quiet
from ..weights.checkpoint_file import list_faults
from .config import require_package, task_of
from .tasks import TASKS
from .tasks.task import written_names

DEFAULT_PICTURES = 100
_READS_FILES = ("LoadImageFromFile", "LoadAnnotations", "mmssprl.LoadLabelMap")


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
        images: Folder, searched recursively, or an image.
        out: Folder for the predictions, new or empty: scores.csv, predictions.json (COCO) or
            masks, classes.txt, the pictures, and bad_images.txt if images cannot be read.
        pictures: So many images, spread over all, are drawn with their predictions.
        log: Receives a line of what is going to be done.

    Returns:
        What was written, as text.

    Raises:
        FileExistsError: ``out`` holds files.
        FileNotFoundError: No such run or folder, or no image in it.
        ValueError: A run of something else, or no image that can be read.
    """
    if pictures < 0:
        raise UserValueError(f"pictures must be at least 0, but got {pictures}.")
    out = check_folder(out, "out")
    if not is_unused(out):
        raise UserFileExistsError(f"out must be a new or empty folder, but {out} holds files.")
    what = "a folder of images"
    images = check_path(images, "images", file="an image", folder=what, suffixes=IMAGE_SUFFIXES)
    if images.is_dir():
        index = index_images(str(images))
        names = list(index.names)
        if not names:
            remedy = heic_remedy(index.skipped) or "correct the path"
            raise UserFileNotFoundError(
                f"images must be a folder of some, but found none below {images}; {remedy}."
            )
    else:
        images, names = images.parent, [images.name]
    checkpoint = existing_checkpoint(run, "run")
    cfg = run_config(checkpoint.parent)
    task, model = task_of(cfg), load_model(cfg, checkpoint)
    about = f"{task.name}, {len(task.classes)} classes, {len(names)} images, {checkpoint}"
    log(f"{about}, model read from {cfg.filename}")
    good: list[str] = []
    bad: list[str] = []
    predictions = []
    picture_of = written_names(names, ".jpg")
    drawn = {names[i] for i in spread(len(names), pictures)}
    paths = [images / name for name in names]
    found = predictions_of(cfg, model, paths)
    for name, sample in zip(names, watch(found, "predicting", total=len(names)), strict=True):
        if isinstance(sample, ImageReadError):
            bad.append(str(sample))
            continue
        if name in drawn:
            path = out / "pictures" / picture_of[name]
            path.parent.mkdir(parents=True, exist_ok=True)
            (tile,) = task.draw(open_picture(images / name), sample)
            with whole_file(path, "wb") as file:
                Image.fromarray(np.asarray(tile.picture)).save(file, format="JPEG")
        good.append(name)
        predictions.append(task.read(sample))
    if not good:
        raise UserValueError(f"some image must be readable, but none of {len(names)} is: {bad[0]}")
    out.mkdir(parents=True, exist_ok=True)
    written = task.write(out, good, predictions)
    write_whole(out / "classes.txt", "".join(f"{on_one_line(name)}\n" for name in task.classes))
    if pictures:
        num = len(drawn.intersection(good))
        written.append(f"pictures of {num} images: {out / 'pictures'}")
    if bad:
        write_whole(out / "bad_images.txt", "\n".join(bad) + "\n")
        written.append(f"left out {len(bad)} images that cannot be read: {out / 'bad_images.txt'}")
    return "\n".join(written)


def load_model(cfg: Config, checkpoint: str | Path) -> Any:
    """Build the model of a config of ``finetune`` with its weights, on the best device there is."""
    scope = cfg.default_scope
    require_package(scope, str(cfg.filename))
    import_quietly(f"{'mmpretrain' if scope == 'mmssprl' else scope}.datasets")
    with explain_build_errors(cfg):
        model = build_model(cfg.model, scope=scope)
    content = read_checkpoint(checkpoint)
    state = content.get("state_dict", content) if isinstance(content, dict) else {}
    faults = list_faults(state, model.state_dict(), ())
    if faults:
        raise UserValueError(
            f"every weight of {checkpoint} must fit the model of {cfg.filename}, but got "
            f"{faults}; give a checkpoint of that run."
        )
    model.load_state_dict(state)
    model.to(get_device()).train(False)
    return model


def predictions_of(cfg: Config, model: Any, paths: Sequence[Path]) -> Iterator[Any]:
    """Yield the data sample of each image in turn, or the ``ImageReadError`` instead of it."""
    # mmseg's preprocessor takes images of one size only; batches of others are padded.
    batch_size = TASKS[cfg.finetuning.task].batch_size
    with quiet(), DefaultScope.overwrite_default_scope(cfg.default_scope):
        steps = cfg.test_dataloader.dataset.pipeline
        pipeline = Compose([step for step in steps if step.type not in _READS_FILES])
        for start in range(0, len(paths), batch_size):
            batch = [_prepared(path, pipeline) for path in paths[start : start + batch_size]]
            good = [item for item in batch if not isinstance(item, ImageReadError)]
            with torch.inference_mode():
                samples = iter(model.test_step(pseudo_collate(good)) if good else ())
            for item in batch:
                yield item if isinstance(item, ImageReadError) else next(samples)


def _prepared(path: Path, pipeline: Compose) -> Any:
    """Return an image as the pipelines of mmcv's kin pack it, without labels."""
    try:
        image = read_image(path).flip(0).permute(1, 2, 0).contiguous().numpy()  # (H, W, 3), BGR
    except ImageReadError as error:
        return error
    size = image.shape[:2]
    return pipeline({"img": image, "img_path": str(path), "img_shape": size, "ori_shape": size})


def open_picture(path: str | Path) -> NDArray[np.uint8]:
    """Return an image (H, W, 3) in RGB, as it is shown."""
    return read_image(path).permute(1, 2, 0).contiguous().numpy()
