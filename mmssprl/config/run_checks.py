"""Checks of a run before its first step: packages, files, data, classes."""

import importlib.util
import os
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, get_args, get_origin, get_type_hints

from mmengine import registry
from mmengine.config import Config
from mmengine.dataset import BaseDataset
from mmengine.runner import Runner
from torch import nn

from ..console.wording import meant
from ..datasets import UnlabeledImages, VocMultiLabel
from ..datasets.labels.coco_file import LISTS, read_coco
from ..datasets.labels.files import require_files
from ..errors import UserError, UserFileNotFoundError, UserRuntimeError, UserValueError
from ..models.unwrap import unwrap
from ..registry import DATASETS, OPTIMIZERS, class_of
from .keys import used_keys
from .pretrain_checks import check_pretraining, require_pretrain_hook
from .reading import one_line, refuse

_DENSE_PACKAGES = {"mmdet": "mmdet", "mmseg": "mmsegmentation"}
"""Package to install, by registry scope."""
_HEADS = (
    "head",
    "bbox_head",
    "roi_head.bbox_head",
    "roi_head.mask_head",
    "decode_head",
    "auxiliary_head",
)


def check_config(cfg: Config, splits: Sequence[str]) -> None:
    """Check a config without building it, and the data of ``splits`` ('train', 'val', 'test').

    Raises:
        RuntimeError: The package of the config's models is not installed.
        FileNotFoundError: An annotation file or an image folder does not exist.
        ValueError: Anything else.
    """
    scope = cfg.get("default_scope") or "mmssprl"
    missing = missing_package(str(scope))
    if missing:
        raise UserRuntimeError(
            f"{cfg.filename} needs {missing}, but it is not installed; "
            "pip install -r requirements/transfer.txt."
        )

    _check_kinds(cfg)
    if "train" in splits:
        check_pretraining(cfg)
        require_pretrain_hook(cfg)
        _check_optimizer(cfg)
    for split in splits:
        loader = cfg.get(f"{split}_dataloader")
        if isinstance(loader, Mapping) and loader.get("dataset"):
            for dataset in _leaves(loader["dataset"]):
                _check_paths(cfg, dataset, f"{split}_dataloader", scope)


def _check_optimizer(cfg: Config) -> None:
    optimizer = (cfg.get("optim_wrapper") or {}).get("optimizer") or {}
    name = optimizer.get("type") if isinstance(optimizer, Mapping) else None
    if isinstance(name, str) and OPTIMIZERS.get(name) is None:  # mmengine would call None
        known = meant(name, registry.OPTIMIZERS.module_dict, "; take SGD, AdamW or LARC.")
        reason = f"there is no optimizer {name!r}{known}"
        refuse(cfg, "optim_wrapper.optimizer.type", reason)


def _check_kinds(cfg: Config) -> None:
    """Refuse a top-level value of a kind that mmengine's runner does not take, such as a number."""
    hints = get_type_hints(Runner.__init__)
    for key in sorted(used_keys(cfg) & cfg.keys() & hints.keys()):
        value = cfg[key]
        kinds = [get_origin(each) or each for each in get_args(hints[key]) or (hints[key],)]
        if bool not in kinds and not isinstance(value, tuple(kinds)):
            names = " or ".join(kind.__name__ for kind in kinds if kind is not type(None))
            refuse(cfg, key, f"it must be a {names}, but is {value!r:.80}; replace it.")
        if isinstance(value, list):
            for i, part in enumerate(value):
                _require_part(cfg, f"{key}.{i}", part)

    backbone = cfg.model.get("backbone") if isinstance(cfg.get("model"), Mapping) else None
    if backbone is not None:
        _require_part(cfg, "model.backbone", backbone)


def _require_part(cfg: Config, key: str, part: Any) -> None:
    is_plain = part is None or isinstance(part, str | int | float | list | tuple)
    if is_plain or (isinstance(part, Mapping) and "type" not in part):
        refuse(
            cfg, key, f"it must be a dict with a type, but is {part!r:.80}; replace or remove it."
        )


def missing_package(scope: str) -> str | None:
    """Return the package to install for a registry scope, None if nothing is missing."""
    package = _DENSE_PACKAGES.get(scope)
    return package if package and importlib.util.find_spec(scope) is None else None


def check_data(runner: Runner, task: str) -> None:
    """Build a runner's loops and data, for 'train' or 'test', and check them against the model.

    Raises:
        FileNotFoundError: A listed image or label image does not exist.
        ValueError: A split is empty or does not fill a batch, or model, annotations and data set
            have different numbers of classes.
    """
    model = unwrap(runner.model)
    splits = ("train", "val") if task == "train" else ("test",)
    for split in splits:
        loader = _build_loader(runner, split)
        if loader is None:
            continue
        if split == "train" and len(loader) == 0:
            raise UserValueError(
                f"one epoch has no step: {len(loader.dataset)} samples over {runner.world_size} "
                f"process(es) do not fill one batch of {loader.batch_size}; lower "
                "train_dataloader.batch_size or add data."
            )
        for dataset in _leaves(loader.dataset):
            _check_classes(model, dataset, split)
            _check_listed_files(dataset)


def _leaves(dataset: Any) -> Iterator[Any]:
    """Yield the data sets, or their configs, inside wrappers such as RepeatDataset."""
    fields = dataset if isinstance(dataset, Mapping) else getattr(dataset, "__dict__", {})
    inner = fields.get("datasets") or [fields.get("dataset")]
    if inner == [None]:
        yield dataset
    else:
        for part in inner:
            yield from _leaves(part)


def _build_loader(runner: Runner, split: str) -> Any:
    remedy = "check its ann_file, split and filter_cfg."
    try:
        loop = getattr(runner, f"{split}_loop")
    except ValueError as error:
        if isinstance(error, UserError) or not hasattr(error, "built_from"):
            raise  # an error of the loader
        # mmengine concatenates the items of a data set; numpy raises for none.
        raise UserValueError(
            f"{split}_dataloader: its data cannot be read, or no image is left after filtering "
            f"({one_line(error)}); {remedy}"
        ) from error

    if loop is None:
        return None
    if not len(loop.dataloader.dataset):
        text = f"{split}_dataloader must have at least one image, but has none; {remedy}"
        raise UserValueError(text)
    return loop.dataloader


def _check_paths(cfg: Config, dataset: Mapping, name: str, scope: str) -> None:
    """Check that the paths of a data set exist, and read mmdet's annotations."""
    kind = class_of(dataset.get("type"), DATASETS, scope) or object
    if issubclass(kind, UnlabeledImages):
        return  # checks its own files
    root = dataset.get("data_root") or ""
    if "://" in root:
        return  # left to mmengine's file clients

    prefix = dataset.get("data_prefix")
    folders = prefix.values() if isinstance(prefix, Mapping) else [prefix]
    paths = [("ann_file", dataset.get("ann_file") or None), *(("data_prefix", f) for f in folders)]
    if issubclass(kind, VocMultiLabel):
        image_set = os.path.join("ImageSets", "Main", f"{dataset.get('split', 'trainval')}.txt")
        paths.insert(0, ("split", image_set))

    for field, path in paths:
        exists = os.path.isdir if field == "data_prefix" else os.path.isfile
        if isinstance(path, str) and not exists(os.path.join(root, path)):
            refuse(
                cfg,
                name,
                f"{field} must exist, but there is no {os.path.join(root, path)}; correct "
                f"data_root or {field} (docs/data.md shows the expected folders).",
                UserFileNotFoundError,
            )

    if kind.__name__ == "CocoDataset" and dataset.get("ann_file"):
        try:  # mmdet accepts duplicate ids and any text as iscrowd
            read_coco(os.path.join(root, dataset["ann_file"]), *LISTS)
        except UserValueError as error:
            refuse(cfg, name, str(error))


def _check_classes(model: nn.Module, dataset: Any, split: str) -> None:
    classes = getattr(dataset, "metainfo", {}).get("classes")
    if not classes:
        return
    for path in _HEADS:
        try:
            num_classes = attrgetter(f"{path}.num_classes")(model)
        except AttributeError:
            continue
        if isinstance(num_classes, int) and num_classes != len(classes):
            raise UserValueError(
                f"model.{path}.num_classes must be the number of classes of the {split} data, but "
                f"got {num_classes} and {len(classes)} ({', '.join(classes[:3])}, ...); set "
                f"num_classes={len(classes)}, or metainfo=dict(classes=...) of the data set."
            )

    found = getattr(dataset, "cat_ids", None)
    if found is not None and len(found) != len(classes):
        raise UserValueError(
            f"every class of the {split} data set must be a category of {dataset.ann_file}, but "
            f"only {len(found)} of {len(classes)} are; set metainfo=dict(classes=...) to its names."
        )


def _check_listed_files(dataset: Any) -> None:
    # mmssprl's data sets check their files when they read the list.
    if not isinstance(dataset, BaseDataset) or type(dataset).__module__.startswith("mmssprl."):
        return
    infos = [dataset.get_data_info(i) for i in range(len(dataset))]
    for key in ("img_path", "seg_map_path"):
        paths = [info[key] for info in infos if info.get(key)]
        require_files(paths, str(dataset.ann_file))
