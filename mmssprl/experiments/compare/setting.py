"""The methods of a comparison, the settings that they share, and the options they train with."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmengine.config import Config

from ...config.build_errors import explain_build_errors
from ...config.hooks import hook_key
from ...config.run_checks import check_config
from ...config.shipped import config_file
from ...datasets.labels.files import data_folder
from ...errors import UserValueError
from ...models import PretrainingModel, TrainingSize, is_pretraining
from ...pretraining.methods import BY_KEY, METHODS, SSPRL, Method, unknown_method
from ...pretraining.schedule import short_schedule, training_values
from ...runs.work_dirs import digest
from ...weights.backbone import build_model
from ..options import ALL, Size
from .images import TrainingImages

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
    method: Method,
    *,
    images: TrainingImages,
    epochs: int,
    seed: int = 0,
    lr_factor: float = 1.0,
) -> dict[str, Any]:
    """Return the ``cfg_options`` that a method trains with; {} if it does not train."""
    if not method.trains:
        return {}
    cfg = method.config_at(setting.size)
    return {
        "randomness.seed": seed,
        "train_dataloader.batch_size": setting.batch_size,
        "train_dataloader.drop_last": True,
        "train_cfg.max_epochs": epochs,
        "default_hooks.checkpoint.interval": max(1, epochs // 10),
        "default_hooks.checkpoint.max_keep_ckpts": 2,  # keep the old one until the new is complete
        **training_values(
            method,
            cfg,
            _size_of(setting, cfg, images.num_images, epochs),
            lr=cfg.optim_wrapper.optimizer.lr * lr_factor,
            schedule=short_schedule(epochs),
        ),
        **_data_options(setting, method, images),
    }


def _size_of(setting: CompareSetting, cfg: Config, num_images: int, epochs: int) -> TrainingSize:
    """Return the size of a method's run, in which views and backbone are those of the config."""
    width = SSPRL.config_at(setting.size).model.neck.in_channels  # for a method without a neck
    return TrainingSize(
        num_images=num_images,
        epochs=epochs,
        batch_size=setting.batch_size,
        layout=cfg.model.get("layout", {}),
        channels=cfg.model.get("neck", {}).get("in_channels", width),
    )


def _data_options(
    setting: CompareSetting, method: Method, images: TrainingImages
) -> dict[str, Any]:
    """Return where a method finds its images, its labels and the maps of its teacher."""
    cfg = method.config_at(setting.size)
    if method.uses_labels:
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
    if maps_key is not None:  # all runs share its maps
        folder = images.list_file.with_name(f"{images.list_file.stem}_{method.key}")
        options[maps_key] = str(folder)
    return options


def recipe_digest(setting: CompareSetting, method: Method) -> str:
    """Return a SHA-256 of the parts of a method's config that runs do not replace."""
    cfg = method.config_at(setting.size)
    parts: dict[str, Any] = {"backbone": cfg.model.backbone}
    if method.trains:
        parts |= {key: cfg.get(key) for key in ("model", "optim_wrapper", "sync_bn")}
        parts["pipeline"] = cfg.train_dataloader.dataset.get("pipeline")
    if method.is_users or method.learns_from_teacher:
        parts |= {key: cfg.get(key) for key in ("weights", "custom_hooks")}
    return digest(parts)[:16]


def check_configs(setting: CompareSetting, methods: list[Method]) -> None:
    """Raise ValueError for a config that pre-trains nothing, or another backbone than SS-PRL's."""
    expected = SSPRL.config_at(setting.size).model.backbone.to_dict()
    for method in methods:
        cfg = method.config_at(setting.size)
        if method.is_users:
            optimizer = cfg.get("optim_wrapper", {}).get("optimizer", {})
            if not is_pretraining(cfg) or "lr" not in optimizer:
                raise UserValueError(
                    "a row's config must have a pre-training model and "
                    f"optim_wrapper.optimizer.lr, but {method.config} has not; start from a copy "
                    f"of {SSPRL.config_at(setting.size).filename}."
                )
        got = cfg.model.backbone.to_dict()
        keys = {*expected, *got} - {"out_indices"}  # methods read different maps of one network
        name = next((k for k in sorted(keys) if expected.get(k) != got.get(k)), None)
        if name:
            raise UserValueError(
                f"all methods must train the same backbone, but {method.key} has {name} = "
                f"{got.get(name)} in place of {expected.get(name)}; set "
                f"model.backbone.{name} = {expected.get(name)} in {method.config}."
            )


def check_images(setting: CompareSetting, methods: list[Method], images: TrainingImages) -> None:
    """Raise ValueError if a method cannot train with these images and this batch."""
    batch = setting.batch_size
    if images.num_images < batch:
        raise UserValueError(
            f"a step needs {batch} images, but {setting.data} has {images.num_images} to train on; "
            f"add {batch - images.num_images} or more. `pretrain` and `probe` take fewer."
        )
    for method in methods:
        cfg = copy.deepcopy(method.config_at(setting.size))
        if not (method.trains and is_pretraining(cfg)):
            continue
        cfg.merge_from_dict(run_options(setting, method, images=images, epochs=1))
        if method.is_users:
            with explain_build_errors(cfg):
                check_config(cfg, ("train",))
        model: PretrainingModel = build_model(cfg.model)
        try:
            model.check_training(images.num_images, batch)
        except ValueError as error:
            raise UserValueError(
                f"a batch of {batch} does not fit {method.key}: {error} Leave {method.key} out."
            ) from None


def choose_methods(words: Sequence[str]) -> list[Method]:
    """Return the methods of keys, ``ALL`` and config files, each once, in the tables' order."""
    keys: set[str] = set()
    own: dict[str, Path] = {}
    for word in words:
        if word.endswith(".py"):
            path = config_file(word).resolve()
            name = path.stem
            if name in BY_KEY or own.get(name, path) != path:
                raise UserValueError(
                    f"the names of rows must differ, but {word} would be a second {name}; rename "
                    "the file."
                )
            own[name] = path
        elif word == ALL:
            keys.update(method.key for method in METHODS if not method.learns_from_teacher)
        elif word in BY_KEY:
            keys.add(word)
        else:
            raise unknown_method(word, (*BY_KEY, ALL, "a config file (.py)"))
    shipped_rows = [method for method in METHODS if method.key in keys]
    return [*shipped_rows, *(Method(name, name, str(path)) for name, path in own.items())]
