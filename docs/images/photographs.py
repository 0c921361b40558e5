"""Draw photographs.jpg: the pyramid of views of a photograph, and feature maps of a run.

    python docs/images/photographs.py WEIGHTS [--config CONFIG]

WEIGHTS is the backbone of a run of `pretrain`. The photographs come with scikit-image: coffee (CC0,
Rachel Michetti), and in the public domain the astronaut Eileen Collins (NASA) and a launch of
Falcon 9 (SpaceX).

All tiles are squares, and one colour scale holds for all feature maps. The words can be read where
the picture is 370 px wide, as on a phone.
"""

import argparse
from pathlib import Path

import numpy as np
import skimage.data
import torch
from matplotlib.figure import Figure
from PIL import Image

from mmssprl.config.reading import read_config_file
from mmssprl.drawing.sheets import Tile, outlined
from mmssprl.drawing.style import DPI, PYRAMIDS
from mmssprl.features import load_backbone
from mmssprl.features.crops import Crops
from mmssprl.reporting.pictures.feature_maps import feature_maps, principal_colours
from mmssprl.reporting.pictures.views import cut_views, mosaic

CONFIG = "configs/ssprl/ssprl_resnet50_2xb64-coslr-200e_coco.py"
NAMES = ("coffee", "astronaut", "rocket")
SQUARE_PX, FEATURE_PX = 360, 448
SIDE_INCHES, GAP_INCHES, WORDS_INCHES, WORDS_POINTS = 2.45, 0.1, 0.4, 17


def views_of(pixels: torch.Tensor) -> list[Tile]:
    """Return the photograph with its 2 x 2 patches, and patches of both levels."""
    drawn = {each.slot.scale: each for each in cut_views(read_config_file(CONFIG), pixels)}
    photograph = pixels.permute(1, 2, 0).numpy()
    for boxes, colour in zip(drawn[1].boxes, PYRAMIDS, strict=True):
        photograph = outlined(photograph, boxes, colour)
    tiles = [Tile(photograph, "photograph")]
    for scale, grid, view, words in (
        (1, 2, 0, "V, cut"),
        (1, 2, 1, "V', augmented"),
        (2, 3, 1, "V', 3 x 3"),
    ):
        level = drawn[scale]
        # The cells come in a random order; their boxes say where they belong.
        rows = np.argsort(level.boxes[0][:, 1]).reshape(grid, grid)
        order = np.concatenate([row[np.argsort(level.boxes[0][row, 0])] for row in rows])
        crops = (level.augmented if view else level.cut)[view][order]
        tiles.append(Tile(mosaic(crops, grid), words, "", PYRAMIDS[view]))
    return tiles


def draw_tiles(rows: list[list[Tile]]) -> Figure:
    """Draw squares in rows; the words above one may be longer than it."""
    step = SIDE_INCHES + GAP_INCHES
    width = len(rows[0]) * step - GAP_INCHES
    height = len(rows) * (SIDE_INCHES + WORDS_INCHES)
    figure = Figure(figsize=(width, height), facecolor="white")
    for i, row in enumerate(rows):
        bottom = height - (i + 1) * (SIDE_INCHES + WORDS_INCHES)
        for j, tile in enumerate(row):
            place = (j * step / width, bottom / height, SIDE_INCHES / width, SIDE_INCHES / height)
            axes = figure.add_axes(place)
            axes.imshow(tile.picture)
            axes.axis("off")
            style = {"fontsize": WORDS_POINTS, "fontweight": "bold", "color": tile.colour}
            axes.set_title(tile.words, style, loc="left")
    return figure


def main() -> None:
    """Write the picture next to this script."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("weights")
    parser.add_argument("--config")
    asked = parser.parse_args()
    coffee, *others = [
        torch.tensor(getattr(skimage.data, name)()).permute(2, 0, 1) for name in NAMES
    ]
    model = load_backbone(asked.weights, asked.config)
    crops = [Crops(FEATURE_PX).cut(pixels)[0][0] for pixels in others]
    pairs = []
    for crop, colours in zip(crops, principal_colours(feature_maps(model, crops)), strict=True):
        small = Image.fromarray(np.rint(255 * colours).astype(np.uint8))
        large = small.resize((SQUARE_PX, SQUARE_PX), Image.Resampling.BICUBIC)
        pairs += [Tile(crop.permute(1, 2, 0).numpy()), Tile(np.asarray(large))]
    pairs[0] = pairs[0]._replace(words="photographs that the run has not seen, with its features")
    square = Crops(SQUARE_PX).cut(coffee)[0][0]
    draw_tiles([views_of(square), pairs]).savefig(
        Path(__file__).with_suffix(".jpg"), dpi=DPI, pil_kwargs={"quality": 88}
    )


if __name__ == "__main__":
    main()
