"""Feature maps of backbones as colours.

Legend: N images, M backbones, C features, H, W height and width of a feature map.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from torch import Tensor

from ...datasets.channel_images import as_picture
from ...features.backbone import Crops, FeatureBackbone, load_backbone
from ...features.extract import Images, ImageSource
from ...search.contact_sheet import Tile, draw_grid, spread
from ...weights import RANDOM, SUPERVISED, find_config

NUM_IMAGES = 6
_PX = 240
"""Longer side of a drawn map."""


def draw_feature_maps(weights: Sequence[str], images: ImageSource, *, image_px: int) -> Figure:
    """Draw feature maps of some images, a row for each backbone.

    The first three principal components of the cells of all images are red, green and blue: cells
    of one colour look alike to the backbone.

    Args:
        weights: Files as ``load_backbone`` takes them; ``'random'`` is of the first file's config.
        images: Images as ``embed`` takes them; six of them are drawn, at equal distances.
        image_px: Side of the square that is cut out of an image. More pixels give a finer map.

    Raises:
        ValueError: A backbone that returns a vector instead of a map.
    """
    files = [file for file in weights if file not in (RANDOM, SUPERVISED)]
    config = find_config(files[0], None) if files else None
    source = Images(images, like=config)
    crops = [Crops(image_px).cut(source.load(i))[0][0] for i in spread(len(source), NUM_IMAGES)]
    rows = [[Tile(as_picture(crop).permute(1, 2, 0).numpy()) for crop in crops]]
    names = [Path(file).stem.removesuffix("_backbone") for file in weights]
    for file, name in zip(weights, names, strict=True):
        model = load_backbone(file, config if file == RANDOM else None)
        maps = feature_maps(model, crops)  # crops: uint8 (3, px, px)
        if names.count(name) > 1 and file in files:
            name = f"{Path(file).resolve().parent.name[-24:]}/\n{name}"
        words = [f"{name[-50:]}\n{image_px} px, {maps.shape[2]} x {maps.shape[3]} cells"]
        words += [""] * (len(maps) - 1)
        tiles = zip(map(enlarged, principal_colours(maps)), words, strict=True)
        rows.append([Tile(*each) for each in tiles])
    return draw_grid(rows, "feature maps: principal components as colours")


def enlarged(cells: NDArray[np.floating]) -> NDArray[np.uint8]:
    """Return cells (H, W, 3) in 0 to 1 as a picture."""
    times = -(-_PX // max(cells.shape[:2]))
    return np.rint(255 * cells).astype(np.uint8).repeat(times, 0).repeat(times, 1)


@torch.no_grad()
def feature_maps(model: FeatureBackbone, crops: Sequence[Tensor]) -> Tensor:
    """Return the last feature maps (N, C, H, W) of crops, uint8 (3, px, px) each."""
    return torch.cat([model.feature_map(model.normalise(crop)[None]) for crop in crops])


def principal_colours(maps: Tensor) -> NDArray[np.float64]:
    """Return colours (N, H, W, 3) in 0 to 1: three principal components of all cells.

    A logistic curve spreads each component, divided by its deviation, so that an image with extreme
    features does not leave the others dark. A component without variance is gray.
    """
    cells = maps.permute(0, 2, 3, 1).double()  # (N, H, W, C)
    found = PCA(3, random_state=0).fit_transform(cells.flatten(0, 2).numpy())
    scale = np.maximum(found.std(axis=0), 1e-3 * found.std() + 1e-9)
    return (1 / (1 + np.exp(-1.5 * found / scale))).reshape(*cells.shape[:3], 3)
