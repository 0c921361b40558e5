"""What is found wrong with a run before its first step: packages, files, data, classes."""

import importlib
import importlib.util
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from mmengine.config import Config
from mmengine.dataset import BaseDataset
from mmengine.device import get_device
from mmengine.logging import print_log
from mmengine.runner import Runner
from torch import nn

from .._mmcv_operators import uses_torchvision_operators
from ..datasets import UnlabeledImages, VocMultiLabel
from ..datasets.coco_file import LISTS, read_coco
from ..datasets.image_reading import require_files
from ..errors import UserFileNotFoundError, UserRuntimeError, UserValueError
from ..models.unwrap import unwrap
from ..registry import DATASETS, class_of
from .pretrain_checks import check_division, check_pretraining
from .reading import refuse
from .walk import check_parts, check_scope, check_together

_DENSE_PACKAGES = {"mmdet": "mmdet", "mmseg": "mmsegmentation"}
"""What a registry scope of detection or segmentation is called in errors."""
_HEADS = (
    *("head", "bbox_head", "roi_head.bbox_head", "roi_head.mask_head"),
    *("decode_head", "auxiliary_head"),
)


def check_config(cfg: Config, splits: Sequence[str]) -> None:
    """Check what a config alone tells.

    Args:
        cfg: Config of a training or a test.
        splits: Whose data are needed, of 'train', 'val', 'test'.

    Raises:
        RuntimeError: A package that the config's models come from, or a compiler that they are to
            be compiled with, is not installed, or mmcv's compiled operators do not load.
        FileNotFoundError: An annotation file or an image folder does not exist.
        ValueError: Mixed precision without an accelerator, or as ``check_scope``,
            ``check_together``, ``check_parts`` and ``check_pretraining``.
    """
    scope = cfg.get("default_scope") or "mmssprl"
    missing = missing_package(str(scope))
    if missing:
        raise UserRuntimeError(
            f"{cfg.filename} needs {missing}, but it is not installed; "
            "pip install -r requirements/transfer.txt."
        )
    check_scope(cfg)
    if scope in _DENSE_PACKAGES:
        _check_operators()
    check_together(cfg, splits[0])
    if "train" in splits:
        check_division(cfg)  # knows why some methods have no field num_chunks
    check_parts(cfg, splits)
    wrapper = cfg.get("optim_wrapper")
    kind = wrapper.get("type") if isinstance(wrapper, Mapping) else None
    if "train" in splits and kind == "AmpOptimWrapper" and get_device() == "cpu":
        refuse(
            cfg,
            "optim_wrapper.type",
            "mixed precision needs an accelerator, but got 'AmpOptimWrapper' and only a CPU was "
            "found; set it to 'OptimWrapper'.",
        )
    if "train" in splits:
        check_pretraining(cfg)
    for split in splits:
        loader = cfg.get(f"{split}_dataloader")
        if isinstance(loader, Mapping) and loader.get("dataset"):
            for dataset in _leaves(loader["dataset"]):
                _check_paths(cfg, dataset, f"{split}_dataloader", scope)
            _check_evaluator(cfg, f"{split}_evaluator")


def missing_package(scope: str) -> str | None:
    """Return the package that the models of a registry scope ('mmdet', 'mmseg', ...) lack here."""
    package = _DENSE_PACKAGES.get(scope)
    return package if package and importlib.util.find_spec(scope) is None else None


def log_operators(cfg: Config) -> None:
    """Say so if a run of mmdet or mmseg works on torchvision's operators instead of mmcv's."""
    if cfg.get("default_scope") in _DENSE_PACKAGES and uses_torchvision_operators():
        print_log(
            "mmcv has no compiled operators: nms and roi_align are torchvision's.", logger="current"
        )


def check_data(runner: Runner, task: str) -> None:
    """Check the data sets of a runner against the files and against the model.

    Args:
        runner: Its loops and data sets are built by this.
        task: 'train' or 'test'.

    Raises:
        FileNotFoundError: An image or label image that is listed and does not exist.
        ValueError: An empty split, data that do not fill one batch, or classes of which the model,
            the annotations and the data set count different numbers.
    """
    model = unwrap(runner.model)
    for split in ("train", "val") if task == "train" else ("test",):
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


def _check_operators() -> None:
    try:
        importlib.import_module("mmcv._ext")
    except ImportError as error:
        # pip's cache keeps a build of mmcv for later environments, whatever their torch.
        raise UserRuntimeError(
            f"mmcv's compiled operators must load, but they do not ({error}): they were compiled "
            "for another torch; reinstall mmcv with --force-reinstall --no-deps --no-cache-dir."
        ) from error


def _leaves(dataset: Any) -> Iterator[Any]:
    """Yield the data sets (or their configs) inside wrappers such as RepeatDataset."""

    def get(key: str) -> Any:
        return dataset.get(key) if isinstance(dataset, Mapping) else getattr(dataset, key, None)

    inner = get("datasets") or ([get("dataset")] if get("dataset") is not None else None)
    if inner is None:
        yield dataset
    else:
        for part in inner:
            yield from _leaves(part)


def _build_loader(runner: Runner, split: str) -> Any:
    try:
        loop = getattr(runner, f"{split}_loop")
        loader = None if loop is None else loop.dataloader
        empty = loader is not None and len(loader.dataset) == 0
    except ValueError as error:
        # What numpy says when mmengine joins the items of a data set that has none.
        if "need at least one array" not in str(error):
            raise
        empty = True
    if empty:
        raise UserValueError(
            f"{split}_dataloader must have at least one image, but its data set is empty, perhaps "
            "after filtering; check ann_file, split and filter_cfg."
        )
    return loader


def _check_paths(cfg: Config, dataset: Mapping, name: str, scope: str) -> None:
    kind = class_of(dataset.get("type"), DATASETS, scope) or object
    if issubclass(kind, UnlabeledImages):
        return  # finds and checks its own files
    root = dataset.get("data_root") or ""
    if not isinstance(root, str):
        refuse(cfg, name, f"data_root must be a folder's path, but got {root!r}; correct it.")
    if "://" in root:
        return  # mmengine's file clients find it

    def require(field: str, rule: str, exists: Callable[[str], bool], path: Any) -> None:
        if isinstance(path, str) and not exists(os.path.join(root, path)):
            refuse(
                cfg,
                name,
                f"{field} must {rule}, but there is no {os.path.join(root, path)}; correct "
                f"data_root or {field} (docs/data.md shows the expected folders).",
                UserFileNotFoundError,
            )

    if issubclass(kind, VocMultiLabel):
        image_set = os.path.join("ImageSets", "Main", f"{dataset.get('split', 'trainval')}.txt")
        require("split", "name an image set", os.path.isfile, image_set)
    require("ann_file", "be a file", os.path.isfile, dataset.get("ann_file") or None)
    prefix = dataset.get("data_prefix")
    for folder in prefix.values() if isinstance(prefix, Mapping) else [prefix]:
        require("data_prefix", "be a folder", os.path.isdir, folder)
    if kind.__name__ == "CocoDataset" and dataset.get("ann_file"):
        try:  # mmdet takes the last of two images of one id, and any text for a crowd
            read_coco(os.path.join(root, dataset["ann_file"]), *LISTS)
        except UserValueError as error:
            refuse(cfg, name, str(error))


def _check_evaluator(cfg: Config, name: str) -> None:
    evaluator = cfg.get(name)
    for metric in evaluator if isinstance(evaluator, Sequence) else [evaluator]:
        ann_file = metric.get("ann_file") if isinstance(metric, Mapping) else None
        if ann_file and not os.path.isfile(ann_file):
            refuse(
                cfg,
                name,
                f"ann_file must be a file, but there is no {ann_file}; give the one of the data "
                "loader.",
                UserFileNotFoundError,
            )


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
    # mmssprl's own data sets have checked their files while they read the list.
    if not isinstance(dataset, BaseDataset) or type(dataset).__module__.startswith("mmssprl."):
        return
    infos = [dataset.get_data_info(i) for i in range(len(dataset))]
    for key in ("img_path", "seg_map_path"):
        paths = [info[key] for info in infos if info.get(key)]
        require_files(paths, str(dataset.ann_file))
