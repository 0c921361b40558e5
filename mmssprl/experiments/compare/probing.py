"""The probe of one run."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...features.average_precision import mean_average_precision
from ...features.linear_classifier import fit_linear_probe
from ...features.linear_probe import extract_splits
from ...weights import find_config
from .images import Split, read_images


def probe(
    weights: str,
    config: Path,
    data: Path,
    *,
    split: Split,
    image_px: int,
    weights_seed: int,
) -> dict[str, Any]:
    """Score frozen features as ``evaluation.linear_probe`` does.

    Args:
        weights: Weights file, training checkpoint, or 'random'.
        config: With ``model.backbone``.
        data: Folder of the labelled images.
        split: Which images score, see ``read_images``.
        image_px: Side of the centre crops.
        weights_seed: Of random weights.

    Returns:
        ``mAP`` and ``chance_mAP`` in [0, 1].
    """
    (train_x, train_y), (test_x, test_y), device = extract_splits(
        weights,
        find_config(weights, str(config)),
        read_images(data, split),
        image_px=image_px,
        seed=weights_seed,
        progress=False,
    )
    classifier = fit_linear_probe(train_x.to(device), train_y.to(device))
    score, _ = mean_average_precision(classifier(test_x.to(device)), test_y)
    return {"mAP": score, "chance_mAP": _chance(test_y)}


def score_nothing(data: Path, *, split: Split) -> dict[str, Any]:
    """Return what ``probe`` would return of features that tell nothing: the score of a constant."""
    chance = _chance(read_images(data, split).test.labels)
    return {"mAP": chance, "chance_mAP": chance}


def _chance(labels: Tensor) -> float:
    return mean_average_precision(torch.zeros_like(labels, dtype=torch.float32), labels)[0]
