"""How much a frozen backbone's features tell a linear classifier: mAP on unseen images."""

import time
from collections.abc import Callable, Sequence
from math import isnan
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from torch import Tensor

from ..weights import RANDOM, SUPERVISED, find_config
from .average_precision import mean_average_precision
from .extract import check_loading, choose_device, extract_split
from .frozen_backbone import frozen_backbone
from .linear_classifier import fit_linear_probe
from .probe_data import ProbeData, find_probe_data

Split = tuple[Tensor, Tensor]
"""Features (N, C) and labels (N, K)."""


def linear_probe(weights: str | Path, data: str | Path, **options: Any) -> dict[str, Any]:
    """Score the frozen features of one file of weights; see ``linear_probes``."""
    return linear_probes([weights], data, **options)[0]


def linear_probes(
    weights: Sequence[str | Path],
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
) -> list[dict[str, Any]]:
    """Score frozen features: extract them once, fit a linear classifier, measure mAP.

    Features come from the centre crop, so they are computed once per image; the paper's protocol
    (SGD on augmented images) is a training config instead. Numbers of the two are not comparable.

    Args:
        weights: Backbone weights, training checkpoints, ``'random'`` or ``'supervised'``, see
            ``load_backbone``. All are loaded before the first is measured.
        data: Labelled folder, see ``find_probe_data``.
        config: Config with ``model.backbone``, for all weights; None takes the one beside each. The
            words take that of the first file then.
        image_px: Side of the centre crop; the shorter side is resized to 256/224 of it. None takes
            the image views' size of the first config's layout, or 224 without one, for all weights:
            scores at different sizes say more of the sizes than of the features.
        batch_size: Images per forward pass.
        num_workers: Processes that read images.
        device: 'auto' (a GPU if there is one), 'cpu', 'cuda', 'cuda:1', ...
        seed: Seed of random weights, of the folds that choose the penalty, and of the draw of test
            images where the folder has no splits.
        progress: Whether to draw progress bars.
        log: Receives a line about each step.

    Returns:
        For each of ``weights``: ``mAP`` and ``chance_mAP`` (of a constant score) in [0, 1],
        ``accuracy`` and ``chance_accuracy`` (of the most frequent class; both None unless each
        image is of one class), ``per_class`` (None for a class without a test image), ``strength``
        and ``held_out_mAP`` of the classifier, and what was measured: ``weights``, ``config``,
        ``data``, ``layout``, ``num_train``, ``num_test``, ``num_classes``, ``num_features``,
        ``image_px``, ``seed``, ``seconds``.

    Raises:
        ValueError: Arguments, weights, config or data that do not fit, each named.
        FileNotFoundError: A file or folder that does not exist.
    """
    check_loading(batch_size, num_workers)
    names = [str(each) for each in weights]
    configs = _find_configs(names, None if config is None else str(config))
    where = choose_device(device)
    found = find_probe_data(data, seed=seed)
    log(found.labelled.describe())
    models = [
        frozen_backbone(name, cfg, image_px=image_px, seed=seed)
        for name, cfg in zip(names, configs, strict=True)
    ]
    if len({model.image_px for model in models}) > 1:
        log(f"all at {models[0].image_px} px, the size of {names[0]}; image_px takes another")
        for model in models:
            model.image_px = models[0].image_px
    results: list[dict[str, Any]] = []
    for name, cfg, model in zip(names, configs, models, strict=True):
        begun = time.perf_counter()
        if len(names) > 1:
            log(f"{name} ({len(results) + 1} of {len(names)})")
        log(f"features of {found.labelled.root} at {model.image_px} px on {where}")
        train, test = (
            extract_split(
                model,
                split,
                batch_size=batch_size,
                num_workers=num_workers,
                device=where,
                progress=progress,
                log=log,
            )
            for split in (found.train, found.test)
        )
        log(f"linear classifier on {train[0].shape[1]} features")
        results.append(
            {
                **_score(train, test, found, where, seed),
                "weights": name,
                "config": str(cfg.filename),
                "data": str(found.labelled.root),
                "layout": found.labelled.layout,
                "num_train": len(train[0]),
                "num_test": len(test[0]),
                "num_classes": len(found.classes),
                "num_features": train[0].shape[1],
                "image_px": model.image_px,
                "seed": seed,
                "seconds": time.perf_counter() - begun,
            }
        )
    return results


def _find_configs(weights: list[str], config: str | None) -> list[Config]:
    """Return the config of each file; the words take that of the first file."""
    words = {RANDOM, SUPERVISED}
    files = {name: find_config(name, config) for name in weights if name not in words}
    model = next(iter(files.values())) if files and config is None else None

    def of_word(name: str) -> Config:
        if model is None:
            alone = SUPERVISED if SUPERVISED in weights and config is None else name
            return find_config(alone, config)
        if name == RANDOM or model.model.backbone.type != "ResNet":
            return model
        # The same depth, image size and normalisation, at torchvision's width.
        cfg = Config(model.to_dict(), filename=model.filename)
        cfg.model.backbone = {"type": "ResNet", "depth": model.model.backbone.depth}
        return cfg

    return [files.get(name) or of_word(name) for name in weights]


def _score(
    train: Split, test: Split, found: ProbeData, where: torch.device, seed: int
) -> dict[str, Any]:
    """Fit the classifier and measure it."""
    classifier = fit_linear_probe(train[0].to(where), train[1].to(where), seed=seed)
    logits, truth = classifier(test[0].to(where)), test[1]
    score, areas = mean_average_precision(logits, truth)
    chance, _ = mean_average_precision(torch.zeros_like(truth, dtype=torch.float32), truth)
    accuracy = chance_accuracy = None
    if found.labelled.is_single_label:
        classes = truth.argmax(dim=1)
        accuracy = (logits.argmax(dim=1).cpu() == classes).float().mean().item()
        most_frequent = train[1].sum(dim=0).argmax()
        chance_accuracy = (classes == most_frequent).float().mean().item()
    return {
        "mAP": score,
        "chance_mAP": chance,
        "accuracy": accuracy,
        "chance_accuracy": chance_accuracy,
        "per_class": {
            name: None if isnan(area) else float(area)
            for name, area in zip(found.classes, areas, strict=True)
        },
        "strength": classifier.strength,
        "held_out_mAP": {str(key): value for key, value in classifier.held_out.items()},
    }
