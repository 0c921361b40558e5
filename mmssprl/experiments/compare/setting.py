"""The settings that the rows of a comparison share, and the options they train with."""

import copy
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmengine.optim import build_optim_wrapper

from ...config.build_errors import explain_build_errors
from ...config.hooks import hook_key, hook_value
from ...config.keys import key_of_start
from ...config.run_checks import check_config
from ...console.quiet import quiet
from ...datasets.labels.files import data_folder
from ...errors import UserValueError
from ...models import PretrainingModel, TrainingSize, is_pretraining
from ...pretraining.methods import SSPRL
from ...pretraining.schedule import short_schedule, training_values
from ...registry import MODELS
from ...runs.work_dirs import digest
from ...weights import Source, weights_file
from ...weights.backbone import build_model
from ..options import Size
from .images import TrainingImages
from .rows import Row

EPOCHS: dict[Size, int] = {"scenes": 24, "photos": 20, "photos-gpu": 20}
"""Default length of SS-PRL's runs."""
IMAGE_PX: dict[Size, int] = {"scenes": 96, "photos": 96, "photos-gpu": 128}
"""Side of the centre crops that are probed."""


@dataclass(frozen=True)
class CompareSetting:
    """Settings that are equal for all runs of a work dir; ``epochs`` are SS-PRL's."""

    size: Size
    data: Path
    epochs: int
    batch_size: int


def run_options(
    setting: CompareSetting,
    row: Row,
    *,
    images: TrainingImages,
    epochs: int,
    seed: int = 0,
    lr_factor: float = 1.0,
) -> dict[str, Any]:
    """Return the ``cfg_options`` of a row's config; {} if it does not train.

    What the row's values set, they leave out: all but the numbers that runs of a table share.
    """
    if not row.trains:
        return {}
    cfg = row.config_at(setting.size)
    values = training_values(
        row.method,
        cfg,
        _size_of(cfg, images.num_images, epochs, batch_of(setting, row), setting.size),
        lr=cfg.optim_wrapper.optimizer.lr * lr_factor,
        schedule=short_schedule(epochs),
    )
    chosen = {
        "train_dataloader.batch_size": setting.batch_size,
        "train_dataloader.drop_last": True,
        "default_hooks.checkpoint.interval": max(1, epochs // 10),
        "default_hooks.checkpoint.max_keep_ckpts": 2,  # keep the old one until the new is complete
        **values,
    }

    lr = chosen.pop("optim_wrapper.optimizer.lr")
    own = row.keys(cfg)
    return {
        "randomness.seed": seed,
        "train_cfg.max_epochs": epochs,
        "optim_wrapper.optimizer.lr": lr,
        **{key: value for key, value in chosen.items() if not _is_set(key, own)},
        **_data_options(setting, row, images),
    }


def _is_set(key: str, own: Collection[str]) -> bool:
    """Whether one of a row's own keys sets a key, or a part of the config with it."""
    return any(f"{key}.".startswith(f"{each}.") for each in own)


def batch_of(setting: CompareSetting, row: Row) -> int:
    """Return the images of a row's steps: its own value, or the number that all rows share."""
    cfg = row.config_at(setting.size)
    is_own = _is_set("train_dataloader.batch_size", row.keys(cfg))
    return cfg.train_dataloader.batch_size if is_own else setting.batch_size


def _size_of(
    cfg: Config, num_images: int, epochs: int, batch_size: int, size: Size
) -> TrainingSize:
    """Return the size of a row's runs, with the views and the backbone of the config."""
    width = SSPRL.config_at(size).model.neck.in_channels  # for a method without a neck
    return TrainingSize(
        num_images=num_images,
        epochs=epochs,
        batch_size=batch_size,
        layout=cfg.model.get("layout", {}),
        channels=cfg.model.get("neck", {}).get("in_channels", width),
    )


def _data_options(setting: CompareSetting, row: Row, images: TrainingImages) -> dict[str, Any]:
    """Return where a row finds its images, its labels and the maps of its teacher."""
    cfg = row.config_at(setting.size)
    if row.method.uses_labels:
        own = {"pipeline": cfg.train_dataloader.dataset.pipeline, "_delete_": True}
        return {
            "train_dataloader.dataset": images.labelled | own,
            "model.head.num_classes": images.num_classes,
        }
    options = {
        "train_dataloader.dataset.data_root": str(data_folder(setting.data)),
        "train_dataloader.dataset.ann_file": str(images.list_file),
    }
    maps_key = hook_key(cfg, "TeacherHook", "folder")
    if maps_key is not None:  # all rows with one teacher share its maps
        owner = row.method.key
        if row.differs:  # perhaps another teacher, or other components of its maps
            size = cfg.model.get("anchor_neck", cfg.model.neck).out_channels
            names = ["teacher", "teacher_px"]
            found = [hook_value(cfg, "TeacherHook", name) for name in names]
            # Without a teacher_px the folder has the name that earlier versions gave it.
            owner = f"teacher-{digest([*filter(None, found), size])[:8]}"
        folder = images.list_file.with_name(f"{images.list_file.stem}_{owner}")
        options[maps_key] = str(folder)
    return options


def digests_of_weights(setting: CompareSetting, rows: Sequence[Row]) -> dict[str, str]:
    """Return digests of the files that rows start from or learn from, by their paths.

    A run is kept by the path alone.
    """
    configs = [row.config_at(setting.size) for row in rows]
    weights = [cfg.get("weights") for cfg in configs]
    weights += [hook_value(cfg, "TeacherHook", "teacher") for cfg in configs]
    files = {Source.of(each).file for each in weights} - {""}
    paths = sorted(str(weights_file(file).resolve()) for file in files)
    return {path: digest("", path) for path in paths}


def recipe_digest(setting: CompareSetting, row: Row) -> str:
    """Return a SHA-256 of the parts of a row's config that runs do not replace."""
    cfg = row.config_at(setting.size)
    parts: dict[str, Any] = {"backbone": cfg.model.backbone}
    if row.trains:
        parts |= {key: cfg.get(key) for key in ("model", "optim_wrapper", "sync_bn")}
        parts["pipeline"] = cfg.train_dataloader.dataset.get("pipeline")
    if row.method.is_users or row.differs or row.method.learns_from_teacher:
        parts |= {key: cfg.get(key) for key in ("weights", "custom_hooks")}
    if row.differs:
        parts["values"] = row.values
    return digest(parts)[:16]


def check_configs(setting: CompareSetting, rows: Sequence[Row]) -> None:
    """Raise ValueError for wrong values, and for a config that compares nothing.

    That is one that pre-trains nothing, or another backbone than SS-PRL's that no value asks for.
    """
    expected = SSPRL.config_at(setting.size).model.backbone.to_dict()
    for row in rows:
        cfg = row.config_at(setting.size)
        if row.method.is_users:
            optimizer = cfg.get("optim_wrapper", {}).get("optimizer", {})
            if not is_pretraining(cfg) or "lr" not in optimizer:
                raise UserValueError(
                    "a row's config must have a pre-training model and "
                    f"optim_wrapper.optimizer.lr, but {row.method.config} has not; start from a "
                    f"copy of {SSPRL.config_at(setting.size).filename}."
                )

        if key := key_of_start(cfg):
            raise UserValueError(
                f"row {row.key}: {key} loads weights, but compare draws each backbone by its seed, "
                "equal for all rows; remove it, and set weights to the file."
            )

        own = row.keys(cfg)
        fixed = own & {"train_cfg.max_epochs", "randomness.seed"}
        if fixed:
            raise UserValueError(
                f"row {row.key}: values must not have {', '.join(sorted(fixed))}, which compare "
                "sets; give the field epochs, or --seeds."
            )
        if any(key.startswith("model.backbone") for key in own):
            continue

        got = cfg.model.backbone.to_dict()
        keys = {*expected, *got} - {"out_indices"}  # methods read different maps of one network
        name = next((k for k in sorted(keys) if expected.get(k) != got.get(k)), None)
        if name:
            raise UserValueError(
                f"all methods must train the same backbone, but {row.key} has {name} = "
                f"{got.get(name)} in place of {expected.get(name)}; set "
                f"model.backbone.{name} = {expected.get(name)} in {row.method.config}."
            )


def check_images(setting: CompareSetting, row: Row, images: TrainingImages) -> None:
    """Raise ValueError if a row cannot train with these images and this batch."""
    batch = batch_of(setting, row)
    if images.num_images < batch:
        raise UserValueError(
            f"a step needs {batch} images, but {setting.data} has {images.num_images} to train on; "
            f"add {batch - images.num_images} or more. `pretrain` and `probe` take fewer."
        )
    cfg = copy.deepcopy(row.config_at(setting.size))
    if not (row.trains and is_pretraining(cfg)):
        return
    cfg.merge_from_dict(run_options(setting, row, images=images, epochs=1))
    if row.method.is_users or row.differs:
        with explain_build_errors(cfg), quiet():
            check_config(cfg, ("train",))
            build_optim_wrapper(MODELS.build(cfg.model), cfg.optim_wrapper.copy())
    model: PretrainingModel = build_model(cfg.model)
    try:
        model.check_training(images.num_images, batch)
    except ValueError as error:
        raise UserValueError(
            f"a batch of {batch} does not fit {row.key}: {error} Leave {row.key} out."
        ) from None
