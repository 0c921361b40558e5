"""Images to measure with where no photographs are at hand: scenes of 640x480 px, about 160 kB."""

from pathlib import Path

import numpy as np
from PIL import Image

from mmssprl.datasets.scenes.generate import draw_scene

_LONG_PX, _SHORT_PX = 640, 480
_QUALITY = 92
_GRAIN = 13.0
"""Deviation, in levels, of the brightness noise that gives a scene the bytes of a photograph."""


def write_images(folder: str | Path, num_images: int) -> Path:
    """Write JPEGs, every fourth of them upright, the same ones on every call; return the folder."""
    root = Path(folder)
    root.mkdir(parents=True, exist_ok=True)
    for i in range(num_images):
        scene = draw_scene(0, "train", i, _LONG_PX).image[:_SHORT_PX]
        # The same noise in all channels: chroma is halved by the JPEG and would lose it.
        grain = np.random.default_rng(i).normal(0, _GRAIN, scene.shape[:2])[..., None]
        image = np.clip(np.rint(scene + grain), 0, 255).astype(np.uint8)
        if i % 4 == 3:
            image = image.swapaxes(0, 1)
        Image.fromarray(image).save(root / f"{i:06}.jpg", quality=_QUALITY)
    return root
