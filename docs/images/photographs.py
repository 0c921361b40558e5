"""Draw photographs.jpg: the pyramid of views of a photograph, and feature maps of a run.

    python docs/images/photographs.py WEIGHTS [--config CONFIG]

WEIGHTS is the backbone of a run of `pretrain`. The photographs come with scikit-image: coffee (CC0,
Rachel Michetti), Chelsea (CC0, Stefan van der Walt), the astronaut Eileen Collins and the Hubble
deep field (NASA) and a launch of Falcon 9 (SpaceX), which are in the public domain.
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np
import skimage.data
import torch
from matplotlib.figure import Figure
from PIL import Image

from mmssprl.config.reading import read_config_file
from mmssprl.console.style import DPI, PYRAMIDS, RC
from mmssprl.features import load_backbone
from mmssprl.features.backbone import Crops
from mmssprl.reporting.pictures.feature_maps import feature_maps, principal_colours
from mmssprl.reporting.pictures.views import cut_views, mosaic
from mmssprl.search.contact_sheet import Tile, fill_grid, outlined

CONFIG = "configs/ssprl/ssprl_resnet50_2xb64-coslr-200e_coco.py"
NAMES = ("coffee", "astronaut", "chelsea", "rocket", "hubble_deep_field")
FEATURE_PX, DRAWN_PX = 384, 360
SIDE_INCHES = 2.0


def views_of(pixels: torch.Tensor) -> list[Tile]:
    """Return the photograph with its patches of both levels, and the patches of both views."""
    drawn = {each.slot.scale: each for each in cut_views(read_config_file(CONFIG), pixels)}
    photograph = pixels.permute(1, 2, 0).numpy()
    for boxes, colour in zip(drawn[1].boxes, PYRAMIDS, strict=True):
        photograph = outlined(photograph, boxes, colour)
    tiles = [Tile(photograph, "a photograph, 2 x 2 patches")]
    for scale, grid in ((1, 2), (2, 3)):
        level = drawn[scale]
        # The cells come in a random order; boxes tell where each of them is.
        rows = np.argsort(level.boxes[0][:, 1]).reshape(grid, grid)
        order = np.concatenate([row[np.argsort(level.boxes[0][row, 0])] for row in rows])
        for view, crops, words in ((0, level.cut, "V, cut"), (1, level.augmented, "V', augmented")):
            tiles.append(Tile(mosaic(crops[view][order], grid), words, "", PYRAMIDS[view]))
    return tiles


def main() -> None:
    """Write the picture next to this script."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("weights")
    parser.add_argument("--config")
    asked = parser.parse_args()
    images = [torch.tensor(getattr(skimage.data, name)()).permute(2, 0, 1) for name in NAMES]
    model = load_backbone(asked.weights, asked.config)
    shown, maps = [], []
    for pixels in images:
        crop = Crops(FEATURE_PX).cut(pixels)[0][0]
        [colours] = principal_colours(feature_maps(model, [crop]))
        small = Image.fromarray(np.rint(255 * colours).astype(np.uint8))
        maps.append(Tile(np.asarray(small.resize((DRAWN_PX, DRAWN_PX), Image.Resampling.BICUBIC))))
        shown.append(Tile(crop.permute(1, 2, 0).numpy()))
    shown[0] = shown[0]._replace(words="photographs that the run has not seen")
    maps[0] = maps[0]._replace(words="principal components of their feature maps")
    figure = Figure(figsize=(5 * SIDE_INCHES, 3 * SIDE_INCHES + 0.75), layout="constrained")
    with matplotlib.rc_context(RC):
        fill_grid(figure, [views_of(images[0]), shown, maps], SIDE_INCHES)
    figure.savefig(Path(__file__).with_suffix(".jpg"), dpi=DPI, pil_kwargs={"quality": 88})


if __name__ == "__main__":
    main()
