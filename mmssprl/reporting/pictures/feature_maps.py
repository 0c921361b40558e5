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

from ...drawing.sheets import Tile, draw_grid, picture, spread
from ...features.backbone import FeatureBackbone, explain_size, load_backbone
from ...features.crops import Crops
from ...features.extract import Images, ImageSource
from ...weights import Source, find_config, refuse_random, without_words

NUM_IMAGES = 6
_PX = 240
"""Longer side of a drawn map."""


def draw_feature_maps(weights: Sequence[str], images: ImageSource, *, image_px: int) -> Figure:
    """Draw feature maps of six images, a row for each backbone.

    The first three principal components of the cells of all images are red, green and blue: cells
    of one colour look alike to the backbone. ``'random'`` weights are of the first file's config,
    and ``image_px`` is the side of the square that is cut out of an image.

    Raises:
        ValueError: A backbone that returns a vector instead of a map.
    """
    files = without_words(weights)
    config = find_config(files[0], None) if files else None
    refuse_random(weights)
    source = Images(images, like=config)
    crops = [Crops(image_px).cut(source.load(i))[0][0] for i in spread(len(source), NUM_IMAGES)]
    rows = [[Tile(picture(crop)) for crop in crops]]
    for file in weights:
        model = load_backbone(file, config if Source.of(file).is_random else None)
        maps = feature_maps(model, crops)  # crops: uint8 (3, px, px)
        name = f"{Path(file).absolute().parent.name[-24:]}/\n" if file in files else ""
        name += Path(file).stem.removesuffix("_backbone")[-50:]
        words = f"{name}\n{image_px} px, {maps.shape[2]} x {maps.shape[3]} cells"
        times = -(-_PX // max(maps.shape[2:]))
        cells = np.rint(255 * principal_colours(maps)).astype(np.uint8)
        cells = cells.repeat(times, axis=1).repeat(times, axis=2)
        rows.append([Tile(each, "" if i else words) for i, each in enumerate(cells)])
    return draw_grid(rows, "feature maps: principal components as colours")


@torch.no_grad()
def feature_maps(model: FeatureBackbone, crops: Sequence[Tensor]) -> Tensor:
    """Return the last feature maps (N, C, H, W) of crops, uint8 (3, px, px) each."""
    images = torch.stack([model.normalise(crop) for crop in crops])
    with explain_size(model, images):
        return torch.cat([model.feature_map(image[None]) for image in images])


def principal_colours(maps: Tensor) -> NDArray[np.float64]:
    """Return colours (N, H, W, 3) in 0 to 1: three principal components of all cells.

    A logistic curve spreads each component, divided by its deviation, so that an image with extreme
    features does not leave the others dark. A component without variance is gray.
    """
    cells = maps.permute(0, 2, 3, 1).double()  # (N, H, W, C)
    found = PCA(3, random_state=0).fit_transform(cells.flatten(0, 2).numpy())
    scale = np.maximum(found.std(axis=0), 1e-3 * found.std() + 1e-9)
    return (1 / (1 + np.exp(-1.5 * found / scale))).reshape(*cells.shape[:3], 3)
