"""How much a frozen backbone's features tell a linear classifier: mAP on unseen images."""

import time
from collections.abc import Callable
from math import isnan
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from torch import Tensor

from ..errors import UserValueError
from ..weights import find_config, load_backbone
from .average_precision import mean_average_precision
from .features import IMAGENET_MEAN, IMAGENET_STD, LabelledImages, extract_features
from .linear_classifier import fit_linear_probe
from .probe_data import LabelledSplit, ProbeData, find_probe_data

DEFAULT_IMAGE_PX = 224


def linear_probe(
    weights: str | Path,
    data: str | Path,
    *,
    config: str | Path | None = None,
    image_px: int | None = None,
    batch_size: int = 64,
    num_workers: int = 0,
    device: str = "auto",
    seed: int = 0,
    progress: bool = True,
    log: Callable[[str], object] = lambda line: None,
) -> dict[str, Any]:
    """Score frozen features: extract them once, fit a linear classifier, measure mAP.

    Features come from the centre crop, so they are computed once per image; the paper's protocol
    (SGD on augmented images) is a training config instead. Numbers of the two are not comparable.

    Args:
        weights: Backbone weights, a training checkpoint or ``'random'``, see ``load_backbone``.
        data: Folder in COCO or VOC layout, see ``find_probe_data``.
        config: Config with ``model.backbone``; None takes the one beside the weights.
        image_px: Side of the centre crop; the shorter side is resized to 256/224 of it. None takes
            the image views' size of the config's layout, or 224 without one.
        batch_size: Images per forward pass.
        num_workers: Processes that read images.
        device: 'auto' (a GPU if there is one), 'cpu', 'cuda', 'cuda:1', ...
        seed: Seed of random weights and of the folds that choose the penalty.
        progress: Whether to draw progress bars.
        log: Receives a line about each step.

    Returns:
        ``mAP`` and ``chance_mAP`` (of a constant score) in [0, 1], ``per_class`` (None for a class
        without a test image), ``strength`` and ``held_out_mAP`` of the classifier, and what was
        measured: ``weights``, ``config``, ``data``, ``layout``, ``num_train``, ``num_test``,
        ``num_classes``, ``num_features``, ``image_px``, ``seed``, ``seconds``.

    Raises:
        ValueError: Arguments, weights, config or data that do not fit, each named.
        FileNotFoundError: A file or folder that does not exist.
    """
    start = time.perf_counter()
    cfg = find_config(str(weights), None if config is None else str(config))
    found = find_probe_data(data)
    log(
        f"{found.layout} layout in {found.root}: {len(found.train.paths)} {found.train.name} and "
        f"{len(found.test.paths)} {found.test.name} images, {len(found.classes)} classes"
    )
    (train_x, train_y), (test_x, test_y), where = extract_splits(
        str(weights),
        cfg,
        found,
        image_px=image_px,
        batch_size=batch_size,
        num_workers=num_workers,
        device=device,
        seed=seed,
        progress=progress,
        log=log,
    )
    log(f"linear classifier on {train_x.shape[1]} features")
    classifier = fit_linear_probe(train_x.to(where), train_y.to(where), seed=seed)
    score, areas = mean_average_precision(classifier(test_x.to(where)), test_y)
    chance, _ = mean_average_precision(torch.zeros_like(test_y, dtype=torch.float32), test_y)
    return {
        "mAP": score,
        "chance_mAP": chance,
        "per_class": {
            name: None if isnan(area) else float(area)
            for name, area in zip(found.classes, areas, strict=True)
        },
        "strength": classifier.strength,
        "held_out_mAP": {str(key): value for key, value in classifier.held_out.items()},
        "weights": str(weights),
        "config": str(cfg.filename),
        "data": str(found.root),
        "layout": found.layout,
        "num_train": len(train_x),
        "num_test": len(test_x),
        "num_classes": len(found.classes),
        "num_features": train_x.shape[1],
        "image_px": _side(cfg, image_px),
        "seed": seed,
        "seconds": time.perf_counter() - start,
    }


def extract_splits(
    weights: str,
    cfg: Config,
    data: ProbeData,
    *,
    image_px: int | None = None,
    batch_size: int = 64,
    num_workers: int = 0,
    device: str = "auto",
    seed: int = 0,
    progress: bool = True,
    log: Callable[[str], object] = lambda line: None,
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor], torch.device]:
    """Return features (N, C) and labels (N, K) of both splits, and where they were computed.

    ``cfg`` is that of the backbone; the other arguments are ``linear_probe``'s.

    Raises:
        ValueError: As ``linear_probe``.
    """
    px = _side(cfg, image_px)
    where = _device(device)
    backbone = load_backbone(weights, cfg, seed=seed)
    preprocessor = cfg.model.get("data_preprocessor") or cfg.get("data_preprocessor") or {}

    def extract(split: LabelledSplit) -> tuple[Tensor, Tensor]:
        log(f"features of {split.name} at {px} px on {where}")
        return extract_features(
            backbone,
            LabelledImages(split.paths, split.labels, px),
            mean=preprocessor.get("mean") or IMAGENET_MEAN,
            std=preprocessor.get("std") or IMAGENET_STD,
            batch_size=batch_size,
            num_workers=num_workers,
            device=where,
            progress=progress,
        )

    return extract(data.train), extract(data.test), where


def _side(cfg: Config, image_px: int | None) -> int:
    layout = cfg.model.get("layout") or cfg.get("layout") or {}
    return layout.get("image_px", DEFAULT_IMAGE_PX) if image_px is None else image_px


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise UserValueError(
            f"device must be one that this machine has, but got {name!r} "
            f"({str(error).splitlines()[0]}); use 'auto' or 'cpu'."
        ) from error
