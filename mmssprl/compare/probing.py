"""The probe of one run: features once, then a classifier per probe seed."""

from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from ..evaluation.average_precision import mean_average_precision
from ..evaluation.linear_classifier import fit_linear_probe
from ..evaluation.linear_probe import extract_splits
from ..weights import find_config
from .images import Split, read_images


def probe(
    weights: str,
    config: Path,
    data: Path,
    *,
    split: Split,
    image_px: int,
    weights_seed: int,
    probe_seeds: list[int],
) -> dict[str, Any]:
    """Score frozen features as ``evaluation.linear_probe`` does, with several seeds of its folds.

    Args:
        weights: Weights file, training checkpoint, or 'random'.
        config: With ``model.backbone``.
        data: Folder of the labelled images.
        split: Which images score, see ``read_images``.
        image_px: Side of the centre crops.
        weights_seed: Of random weights.
        probe_seeds: Of the folds that choose the classifier's penalty.

    Returns:
        ``mAP``, the mean over the probe seeds, and ``chance_mAP`` in [0, 1]; ``probes``, by seed.
    """
    (train_x, train_y), (test_x, test_y), device = extract_splits(
        weights,
        find_config(weights, str(config)),
        read_images(data, split),
        image_px=image_px,
        seed=weights_seed,
        progress=False,
    )
    scores = []
    for seed in probe_seeds:
        classifier = fit_linear_probe(train_x.to(device), train_y.to(device), seed=seed)
        scores.append(mean_average_precision(classifier(test_x.to(device)), test_y)[0])
    return {"mAP": fmean(scores), "chance_mAP": _chance(test_y), "probes": scores}


def score_nothing(data: Path, *, split: Split, probe_seeds: list[int]) -> dict[str, Any]:
    """Return what ``probe`` would return of features that tell nothing: the score of a constant."""
    chance = _chance(read_images(data, split).test.labels)
    return {"mAP": chance, "chance_mAP": chance, "probes": [chance] * len(probe_seeds)}


def _chance(labels: Tensor) -> float:
    return mean_average_precision(torch.zeros_like(labels, dtype=torch.float32), labels)[0]
