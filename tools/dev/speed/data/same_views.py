"""Whether all loaders cut and recolour alike, seen from outside: by what they do to known images.

The check needs no access to anybody's random numbers, so what is timed is what is checked.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import numpy as np
import torch
from PIL import Image
from scipy.stats import fisher_exact, ks_2samp

from mmssprl.datasets.transforms.pyramid_crop import PyramidCrop
from mmssprl.pyramid import ViewLayout

from ..common.gates import MIN_P
from . import loaders
from .color_probes import JITTERS, our_colors, step_colors
from .crop_boxes import SMALL, boxes


@dataclass(frozen=True)
class Comparison:
    """One quantity of two loaders, and how likely they are to draw it from one distribution."""

    side: str
    quantity: str
    p: float


def check_same(num_samples: int = 1000) -> list[Comparison]:
    """Compare crops, boxes, flips, colours and blurs of ours with those of the other loaders.

    Args:
        num_samples: Images, and draws of each photometric step, per side.

    Returns:
        All comparisons of distributions, none of them significant.

    Raises:
        RuntimeError: Views of a cell that do not share it, or distributions that differ
            (family-wise p < ``MIN_P``); names what differs.
    """
    _seed(0)
    results = []
    ours = {**boxes(_our_crops(SMALL), num_samples), **our_colors(num_samples)}
    for side, crops, steps in (
        ("torchvision", _torchvision_crops(SMALL), _torchvision_step),
        ("mmpretrain", _mmpretrain_crops(SMALL), _mmpretrain_step),
    ):
        theirs = {**boxes(crops, num_samples), **step_colors(steps, num_samples)}
        results += compare(side, ours, theirs)
    worst = min(results, key=lambda result: result.p)
    if smallest_p(results) < MIN_P:
        raise RuntimeError(
            f"all loaders must draw their crops alike, but {worst.quantity} differs from "
            f"{worst.side}'s (p = {worst.p:.2g} in the worst of {len(results)} tests); mend "
            "loaders.py, or the loader that it compares, before anything is timed."
        )
    return results


def smallest_p(results: list[Comparison]) -> float:
    """Return the smallest p-value, corrected for the number of tests (Bonferroni), at most 1."""
    return min(1.0, len(results) * min(result.p for result in results))


def compare(
    side: str, ours: dict[str, np.ndarray], theirs: dict[str, np.ndarray]
) -> list[Comparison]:
    """Test each quantity: yes-or-no ones with Fisher's exact test, others with KS."""
    results = []
    for name, own in ours.items():
        other = theirs[name]
        if own.dtype == bool:
            table = [[int(a.sum()), int((~a).sum())] for a in (own, other)]
            p = float(fisher_exact(table).pvalue)
        else:
            p = float(ks_2samp(own, other).pvalue)
        results.append(Comparison(side, name, p))
    return results


def _our_crops(layout: ViewLayout) -> Callable[[np.ndarray], list[np.ndarray]]:
    crop = PyramidCrop(layout)
    indices = count()

    def cut(image: np.ndarray) -> list[np.ndarray]:
        packed = crop({"img": image, "crop_seed": (0, 0, next(indices))})["inputs"]
        return [crop.permute(1, 2, 0).numpy() for crop in loaders.by_slot(layout, packed)]

    return cut


def _torchvision_crops(layout: ViewLayout) -> Callable[[np.ndarray], list[np.ndarray]]:
    loader = loaders.TorchvisionLoader([], layout, steps=())
    mean, std = np.array(loaders.MEAN), np.array(loaders.STD)

    def cut(image: np.ndarray) -> list[np.ndarray]:
        crops = loader.cut(Image.fromarray(image))
        return [255 * (crop.permute(1, 2, 0).numpy() * std + mean) for crop in crops]

    return cut


def _mmpretrain_crops(layout: ViewLayout) -> Callable[[np.ndarray], list[np.ndarray]]:
    loader = loaders.MultiViewLoader([], layout, steps=())

    def cut(image: np.ndarray) -> list[np.ndarray]:
        crops = loader.cut({"img": image})["inputs"]
        return [crop.permute(1, 2, 0).numpy() for crop in crops]

    return cut


def _torchvision_step(name: str) -> Callable[[np.ndarray], np.ndarray]:
    step = _only(name, loaders.torchvision_steps)
    return lambda image: np.asarray(step(Image.fromarray(image)))


def _mmpretrain_step(name: str) -> Callable[[np.ndarray], np.ndarray]:
    step = _only(name, loaders.mmpretrain_steps)
    # Their images are B, G, R.
    return lambda image: step({"img": image[..., ::-1].copy()})["img"][..., ::-1]


def _only(name: str, steps: Callable[[dict[str, float]], dict[str, Callable]]) -> Callable:
    """Return the step ``name``; of a jitter only the named strength."""
    if name in JITTERS:
        return steps({name: loaders.JITTER[name]})["jitter"]
    return steps(loaders.JITTER)[name]


def _seed(seed: int) -> None:
    """Seed all generators that the loaders draw from."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002, mmpretrain draws from numpy's global one
    torch.manual_seed(seed)
