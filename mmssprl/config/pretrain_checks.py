"""What a pre-training config must not ask for, found before anything is built."""

import copy
import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from mmengine.config import Config
from mmengine.device import get_device

from ..datasets.transforms import PyramidCrop
from ..errors import UserError, UserRuntimeError, UserValueError
from ..models import is_pretraining, pretraining_class
from ..pyramid import ViewLayout
from ..registry import TRANSFORMS, class_of
from .reading import add_place, refuse


def check_pretraining(cfg: Config) -> None:
    """Check views, division and compilation of a pre-training's steps; other configs pass.

    Raises:
        ValueError: A layout of the model that is not the data's, or as ``check_division``.
        RuntimeError: Something is to be compiled, and torch.compile cannot work here.
    """
    if not is_pretraining(cfg):
        return
    check_division(cfg)
    _check_layouts(cfg)
    preprocessor = cfg.model.get("data_preprocessor")
    if not isinstance(preprocessor, Mapping):
        preprocessor = {}
    # On a CPU the preprocessor has kernels of its own, which need no compilation here.
    if cfg.model.get("compile_backbone") or (preprocessor.get("compile") and get_device() != "cpu"):
        _check_compiler()


def check_division(cfg: Config) -> None:
    """Check in which parts a pre-training sees its batch; other configs pass.

    Raises:
        ValueError: Gradients accumulated by the optimizer's wrapper, or ``model.num_chunks`` that
            the method refuses or that does not divide the batch.
    """
    method = pretraining_class(cfg)
    if method is None:
        return
    wrapper = cfg.get("optim_wrapper")
    counts = wrapper.get("accumulative_counts", 1) if isinstance(wrapper, Mapping) else 1
    if counts != 1:
        larger = (
            " For a batch N times as large multiply train_dataloader.batch_size by N and set "
            "model.num_chunks=N."
        )
        refuse(
            cfg,
            "optim_wrapper.accumulative_counts",
            "it must be 1 in pre-training, where queues, targets and freezing count whole updates, "
            f"but got {counts!r}; leave it out.{larger if method.takes_num_chunks else ''}",
        )
    num_chunks = cfg.model.get("num_chunks", 1)
    if num_chunks != 1 and not method.takes_num_chunks:
        refuse(
            cfg,
            "model.num_chunks",
            f"it must be 1 for {method.__name__}, which needs its whole batch at once, but got "
            f"{num_chunks!r}; leave it out, and lower train_dataloader.batch_size if there is not "
            "enough memory.",
        )
    if not isinstance(num_chunks, int) or num_chunks < 1:
        refuse(
            cfg,
            "model.num_chunks",
            f"it must be an integer >= 1, but got {num_chunks!r}; correct it.",
        )
    batch_size = _loader_of(cfg).get("batch_size")
    if isinstance(batch_size, int) and batch_size % num_chunks:
        refuse(
            cfg,
            "train_dataloader.batch_size",
            f"it must be a multiple of model.num_chunks, but got {batch_size} and {num_chunks}; "
            "change one of them.",
        )


def _loader_of(cfg: Config) -> Mapping:
    loader = cfg.get("train_dataloader")
    return loader if isinstance(loader, Mapping) else {}  # the runner says what it may be


def hand_on_layout(cfg: Config) -> None:
    """Give the model's layout to every ``PyramidCrop`` of its training data that has none."""
    if is_pretraining(cfg) and "layout" in cfg.model:
        for _, crop in _crops(cfg):
            if crop.get("layout") is None:
                crop["layout"] = copy.deepcopy(cfg.model.layout)


def _crops(cfg: Config) -> Iterator[tuple[str, dict]]:
    """Yield the configs of ``PyramidCrop`` in the training data, behind their keys."""
    dataset = _loader_of(cfg).get("dataset")
    pipeline = dataset.get("pipeline") if isinstance(dataset, Mapping) else None
    for i, transform in enumerate(pipeline if isinstance(pipeline, list) else ()):
        kind = transform.get("type") if isinstance(transform, dict) else None
        if class_of(kind, TRANSFORMS) is PyramidCrop:
            yield f"train_dataloader.dataset.pipeline.{i}", transform


def _check_layouts(cfg: Config) -> None:
    """Refuse a ``PyramidCrop`` whose own layout is not the model's."""
    for key, crop in _crops(cfg) if "layout" in cfg.model else ():
        model = _build_layout(cfg, "model.layout", cfg.model.layout)
        if crop.get("layout") is None:
            continue
        data = _build_layout(cfg, f"{key}.layout", crop["layout"])
        names = [f.name for f in fields(model) if getattr(model, f.name) != getattr(data, f.name)]
        if names:
            got = " and ".join(str([getattr(view, n) for n in names]) for view in (model, data))
            refuse(
                cfg,
                "model.layout",
                f"it must be the layout of {key}.layout, but {', '.join(names)} of them are {got}; "
                "leave the second one out, then the data follow the model.",
            )


def _build_layout(cfg: Config, key: str, layout: Any) -> ViewLayout:
    try:
        return ViewLayout.build(layout)
    except UserError as error:
        add_place(error, cfg, key)
        raise


def _check_compiler() -> None:
    import torch

    # On a CPU torch tries this one alone.
    compiler = os.environ.get("CXX", "clang++" if sys.platform == "darwin" else "g++")
    on_cpu = get_device() == "cpu"
    if not torch._dynamo.is_dynamo_supported():
        missing = f"which does not support Python {sys.version.split()[0]}"
    elif not on_cpu and importlib.util.find_spec("triton") is None:
        missing = "which needs the package triton for a GPU, and it is not installed"
    elif on_cpu and not shutil.which(compiler):
        missing = f"which needs a C++ compiler on a CPU, and there is no {compiler}"
    else:
        return
    raise UserRuntimeError(
        "model.compile_backbone and model.data_preprocessor.compile use torch.compile, "
        f"{missing}; install it, or leave --compile out."
    )


def use_compile(cfg: Config) -> None:
    """Turn on what a pre-training can compile.

    Raises:
        ValueError: Another model than a ``PretrainingModel`` that takes ``compile_backbone``.
    """
    method = pretraining_class(cfg)
    if method is None or not method.takes_compile_backbone:
        kind = (cfg.get("model") or {}).get("type")
        raise UserValueError(
            "--compile is for pre-training methods that take compile_backbone, such as SSPRL, but "
            f"{cfg.filename} trains {kind}; leave it out."
        )
    cfg.model.compile_backbone = True
    cfg.model.data_preprocessor = {**(cfg.model.get("data_preprocessor") or {}), "compile": True}
