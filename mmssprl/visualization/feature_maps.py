"""What a backbone sees where: its feature map as colours, and where a place is found again.

Legend: N images, M backbones, C features, H, W height and width of a feature map.
"""

from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from torch import Tensor

from ..console.style import PYRAMIDS, RC, titled_figure
from ..datasets.channel_images import as_picture
from ..features.backbone import Crops, FeatureBackbone, load_backbone
from ..features.extract import Images, ImageSource
from ..pixels import Pixels
from ..weights import RANDOM, SUPERVISED, find_config

NUM_IMAGES = 6
_INCHES = 1.5
_MARK = PYRAMIDS[1]


def draw_feature_maps(
    weights: Sequence[str | Path],
    images: ImageSource,
    *,
    image_px: int | None = None,
) -> Figure:
    """Draw feature maps of some images, a pair of rows for each backbone.

    The upper row has the first three principal components of the cells of all images as red, green
    and blue: cells of one colour look alike to the backbone. The lower row has the cosine of each
    cell with the one in the middle of the first image, from the image's lowest to its highest.

    Args:
        weights: Files as ``load_backbone`` takes them; ``'random'`` is of the first file's config.
        images: Images as ``embed`` takes them; the first six are drawn.
        image_px: Side of the square that is cut out of an image; None takes twice that of the
            backbone's training, for a finer map.

    Raises:
        ValueError: A backbone that gives a vector and no map.
    """
    files = [str(file) for file in weights if str(file) not in (RANDOM, SUPERVISED)]
    beside = find_config(files[0], None) if files else None
    source = Images(images, pixels=Pixels.of_config(beside) if beside else None)
    pixels = [source.load(i) for i in range(min(NUM_IMAGES, len(source)))]
    num_rows = 1 + 2 * len(weights)
    with matplotlib.rc_context({**RC, "axes.grid": False, "svg.fonttype": "none"}):
        title = "feature maps: principal components as colours, cosines with the marked place"
        ratios = [1.3, *[1] * len(pixels)]
        figure = titled_figure(sum(ratios) * _INCHES, num_rows * _INCHES + 0.5, title)
        grid = figure.subplots(num_rows, len(ratios), squeeze=False, width_ratios=ratios)
        for axes in grid.flat:
            axes.axis("off")
        for number, file in enumerate(weights):
            model = load_backbone(file, beside if str(file) == RANDOM else None)
            px = image_px or 2 * model.image_px
            crops = [Crops(px).cut(each)[0][0] for each in pixels]  # uint8 (3, px, px)
            maps = feature_maps(model, crops)
            (rows, columns), upper, lower = maps.shape[2:], *grid[1 + 2 * number :][:2]
            _label(upper[0], f"{_short(file)}\n{px} px, {rows} x {columns} cells")
            for axes, crop in zip(grid[0, 1:], crops, strict=True):
                axes.imshow(as_picture(crop).permute(1, 2, 0).numpy())
            for axes, colours in zip(upper[1:], principal_colours(maps), strict=True):
                axes.imshow(colours)
            found = middle_cosines(maps)
            for axes, cosines in zip(lower[1:], found, strict=True):
                axes.imshow(cosines, cmap="viridis")
                axes.set_title(f"{cosines.min():.2f} to {cosines.max():.2f}", fontsize=8, pad=2)
            column, row = columns // 2, rows // 2
            _mark(lower[1], column, row)
            if not number:
                _mark(grid[0, 1], px / columns * (column + 0.5), px / rows * (row + 0.5))
            _label(lower[0], "cosine")
    return figure


@torch.no_grad()
def feature_maps(model: FeatureBackbone, crops: Sequence[Tensor]) -> Tensor:
    """Return the last feature maps (N, C, H, W) of crops, uint8 (3, px, px) each."""
    return torch.cat([model.feature_map(model.normalise(crop)[None]) for crop in crops])


def principal_colours(maps: Tensor) -> NDArray[np.float64]:
    """Return colours (N, H, W, 3) in 0 to 1: three principal components of all cells.

    Each component runs from its 1st to its 99th percentile.
    """
    cells = maps.permute(0, 2, 3, 1).double()  # (N, H, W, C)
    found = PCA(3, random_state=0).fit_transform(cells.flatten(0, 2).numpy())
    low, high = np.percentile(found, [1, 99], axis=0)
    scaled = ((found - low) / np.maximum(high - low, 1e-12)).clip(0, 1)
    return scaled.reshape(*cells.shape[:3], 3)


def middle_cosines(maps: Tensor) -> NDArray[np.float32]:
    """Return each cell's cosine with the middle cell of the first image, (N, H, W)."""
    cells = torch.nn.functional.normalize(maps, dim=1)
    middle = cells[0, :, maps.shape[2] // 2, maps.shape[3] // 2]
    return torch.einsum("nchw,c->nhw", cells, middle).numpy()


def _mark(axes: Axes, x: float, y: float) -> None:
    axes.plot(x, y, marker="s", markersize=9, mfc="none", mec="white", mew=3)
    axes.plot(x, y, marker="s", markersize=9, mfc="none", mec=_MARK, mew=1.5)


def _label(axes: Axes, text: str) -> None:
    axes.text(1, 0.5, text, ha="right", va="center", parse_math=False, transform=axes.transAxes)


def _short(weights: str | Path) -> str:
    """Return what a file of weights is called in a picture."""
    name = Path(weights).stem.removesuffix("_backbone")
    return name if len(name) <= 24 else f"{name[:11]}...{name[-10:]}"
