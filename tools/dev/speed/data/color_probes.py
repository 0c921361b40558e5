"""What a photometric step drew, seen in its result: flat and two-coloured images, and a line.

Legend: N samples, H, W height and width of an image.
"""

import colorsys
from collections.abc import Callable

import numpy as np
import torch

from mmssprl.pyramid import NUM_PYRAMIDS, ViewLayout

from . import loaders

JITTERS = ("brightness", "contrast", "saturation", "hue")
_OFF = {"flip_prob": 0.0, "jitter_prob": 0.0, "grayscale_prob": 0.0, "blur_prob": 0.0}
_NO_JITTER = dict.fromkeys(JITTERS, 0.0)
_PROBE_PX = 32

Draws = dict[str, np.ndarray]
"""Name of a quantity -> its N draws."""


def our_colors(num_samples: int) -> Draws:
    """Measure what our preprocessor draws, one step at a time."""
    layout = ViewLayout(image_px=_PROBE_PX, levels=())
    changes: dict[str, dict[str, float]] = {
        name: {"jitter_prob": loaders.JITTER_PROB, **_NO_JITTER, name: loaders.JITTER[name]}
        for name in JITTERS
    }
    changes["flip"] = {"flip_prob": loaders.FLIP_PROB}
    changes["grayscale"] = {"grayscale_prob": loaders.GRAYSCALE_PROB}
    changes["blur"] = {"blur_prob": loaders.BLUR_PROB}
    draws: Draws = {}
    for name, change in changes.items():
        preprocessor = loaders.our_preprocessor(layout, **{**_OFF, **change})
        probe = torch.from_numpy(_probe(name)).permute(2, 0, 1)
        batch = probe.expand((num_samples + 1) // 2, NUM_PYRAMIDS, *probe.shape).contiguous()
        # (2, N / 2, 3, 32, 32) -> (N, 3, 32, 32), N rounded up to even.
        views = preprocessor({"inputs": [batch]}, training=True)["inputs"][0].flatten(0, 1)
        levels = views * torch.tensor(preprocessor.std).view(3, 1, 1)
        levels += torch.tensor(preprocessor.mean).view(3, 1, 1)
        outputs = levels.permute(0, 2, 3, 1).numpy()[:num_samples]
        draws.update(_measure(name, list(outputs)))
    return draws


def step_colors(
    step: Callable[[str], Callable[[np.ndarray], np.ndarray]], num_samples: int
) -> Draws:
    """Measure what another loader's steps draw.

    ``step`` returns, by name, a function of an image (H, W, 3) uint8 that draws and applies it.
    """
    draws: Draws = {}
    for name in (*JITTERS, "flip", "grayscale", "blur"):
        apply, probe = step(name), _probe(name)
        draws.update(_measure(name, [apply(probe) for _ in range(num_samples)]))
    return draws


def _measure(name: str, outputs: list[np.ndarray]) -> Draws:
    """Return whether a step was applied and, where it has one, the factor of those that were."""
    values = np.array([_MEASURES[name](output.astype(np.float64)) for output in outputs])
    if name in ("flip", "grayscale"):
        return {f"{name}, share": values > 0}
    if name == "hue":
        # PIL cuts a shift off to whole steps of 1/255 turn; cut ours off as well to compare draws.
        whole = np.rint if outputs[0].dtype == np.uint8 else np.trunc
        values = whole(255 * values) / 255
    applied = np.abs(values - (0 if name in ("hue", "blur") else 1)) > _LEAST_CHANGE[name]
    return {f"{name}, share": applied, f"{name}, factor": values[applied]}


_LEAST_CHANGE = {"brightness": 0.02, "contrast": 0.02, "saturation": 0.02, "hue": 0.01, "blur": 0.2}
"""From where on uint8 images show a factor: smaller ones count as not applied, on all sides."""


def _probe(name: str) -> np.ndarray:
    """Return the image (32, 32, 3) that shows a step; no factor drives it out of [0, 255]."""
    image = np.full((_PROBE_PX, _PROBE_PX, 3), 100, np.uint8)
    if name in ("flip", "contrast"):
        image[:, : _PROBE_PX // 2], image[:, _PROBE_PX // 2 :] = 64, 192
    elif name in ("saturation", "grayscale"):
        image[:] = 170, 70, 70
    elif name == "hue":
        image[:] = 200, 50, 50
    elif name == "blur":
        image[:], image[:, _PROBE_PX // 2] = 0, 255
    return image


def _hue(image: np.ndarray) -> float:
    hue = colorsys.rgb_to_hsv(*(image[0, 0] / 255))[0]
    return hue - 1 if hue > 0.5 else hue


def _sigma(image: np.ndarray) -> float:
    line = image[_PROBE_PX // 2, :, 0].clip(0)
    return float(np.sqrt((line * (np.arange(_PROBE_PX) - _PROBE_PX // 2) ** 2).sum() / line.sum()))


_MEASURES: dict[str, Callable[[np.ndarray], float]] = {
    "brightness": lambda image: image[0, 0, 1] / 100,
    "contrast": lambda image: (image[0, -1, 1] - image[0, 0, 1]) / 128,
    "saturation": lambda image: (image[0, 0, 0] - image[0, 0, 1]) / 100,
    "hue": _hue,
    "flip": lambda image: image[0, 0, 0] - image[0, -1, 0],
    "grayscale": lambda image: 10 - abs(image[0, 0, 0] - image[0, 0, 1]),
    "blur": _sigma,
}
