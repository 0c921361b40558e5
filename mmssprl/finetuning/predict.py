"""Predict a folder of images with a fine-tuned model, and write what it found."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.config import Config
from mmengine.dataset import Compose
from mmengine.device import get_device
from mmengine.registry import DefaultScope
from numpy.typing import NDArray
from PIL import Image, ImageOps
from torch.utils.data import DataLoader, Dataset

from ..config.build_errors import explain_build_errors
from ..config.run_config import run_config
from ..console.paths import check_path
from ..console.progress import watch
from ..console.quiet import import_quietly
from ..console.wording import on_one_line
from ..datasets import ImageReadError, read_image
from ..datasets.image_index import IMAGE_SUFFIXES, heic_remedy, index_images
from ..errors import UserFileExistsError, UserFileNotFoundError, UserValueError
from ..saving.work_dir import existing_checkpoint
from ..system.one_run import is_unused
from ..system.outputs import check_folder, check_room, whole_file, write_whole
from ..weights import read_checkpoint
from ..weights.backbone import build_model, quiet
from ..weights.checkpoint_file import list_faults
from .config import require_package, task_of
from .tasks.task import written_names

DEFAULT_PICTURES = 100
_MOST_PX = 1280
"""Longest side of a picture that is written."""
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
        pictures: So many images, the first by name, are drawn with their predictions.
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
    return "\n".join(written)


class Predictor:
    """The model of a config and checkpoint of ``finetune``, on the best device there is."""

    def __init__(self, cfg: Config, checkpoint: str | Path) -> None:
        self.task = task_of(cfg)
        self.scope = cfg.default_scope
        require_package(self.scope, str(cfg.filename))
        import_quietly(f"{'mmpretrain' if self.scope == 'mmssprl' else self.scope}.datasets")
        self.device = get_device()
        self.num_workers = cfg.test_dataloader.num_workers
        scope = DefaultScope.overwrite_default_scope(self.scope)
        with quiet(), scope, explain_build_errors(cfg):
            self.model = build_model(cfg.model, scope=self.scope)
            steps = cfg.test_dataloader.dataset.pipeline
            self.pipeline = Compose([step for step in steps if step.type not in _READS_FILES])
        content = read_checkpoint(checkpoint)
        state = content.get("state_dict", content) if isinstance(content, dict) else {}
        faults = list_faults(state, self.model.state_dict(), ())
        if faults:
            raise UserValueError(
                f"every weight of {checkpoint} must fit the model of {cfg.filename}, but got "
                f"{faults}; give a checkpoint of that run."
            )
        self.model.load_state_dict(state)
        self.model.to(self.device).train(False)

    def predict(self, paths: Sequence[str | Path]) -> Iterator[Any]:
        """Yield each image's data sample in turn, or the ``ImageReadError`` instead of it."""
        # mmseg's preprocessor takes images of one size only; batches of others are padded.
        batch_size = self.task.batch_size if self.device != "cpu" else min(8, self.task.batch_size)
        loader = DataLoader(
            _Prepared(paths, self.pipeline),
            batch_size=batch_size,
            num_workers=min(self.num_workers, len(paths)),
            collate_fn=list,
        )
        check_room(loader)
        with torch.inference_mode(), DefaultScope.overwrite_default_scope(self.scope):
            for batch in loader:
                good = [item for item in batch if not isinstance(item, ImageReadError)]
                packed = {key: [item[key] for item in good] for key in ("inputs", "data_samples")}
                samples = iter(self.model.test_step(packed) if good else ())
                for item in batch:
                    yield item if isinstance(item, ImageReadError) else next(samples)


class _Prepared(Dataset):
    """Images as the pipelines of mmcv's kin pack them, without labels."""

    def __init__(self, paths: Sequence[str | Path], pipeline: Compose) -> None:
        self.paths = [str(path) for path in paths]
        self.pipeline = pipeline

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        path = self.paths[index]
        try:
            # Their order of channels is BGR.
            image = read_image(path).flip(0).permute(1, 2, 0).contiguous().numpy()  # (H, W, 3)
        except ImageReadError as error:
            return error
        size = image.shape[:2]
        return self.pipeline(
            {"img": image, "img_path": path, "img_id": index, "img_shape": size, "ori_shape": size}
        )


def open_picture(path: str | Path) -> NDArray[np.uint8]:
    """Return an image (H, W, 3) in RGB, as it is shown."""
    return read_image(path).permute(1, 2, 0).contiguous().numpy()


def save_picture(picture: NDArray[np.uint8], path: Path) -> None:
    """Write a picture whole, as a JPEG, its longest side at most 1,280 pixels."""
    image = Image.fromarray(picture)
    image.thumbnail((_MOST_PX, _MOST_PX))
    with whole_file(path, "wb") as file:
        image.save(file, format="JPEG")


def save_sheet(pictures: Sequence[NDArray[np.uint8]], path: Path) -> None:
    """Write pictures in two columns, at least one, as a PNG."""
    width, height = 800, 400
    canvas = Image.new("RGB", (2 * width, -(-len(pictures) // 2) * height), "white")
    for number, picture in enumerate(pictures):
        cell = ImageOps.pad(Image.fromarray(picture), (width, height), color="white")
        canvas.paste(cell, (number % 2 * width, number // 2 * height))
    with whole_file(path, "wb") as file:
        canvas.save(file, format="PNG")
