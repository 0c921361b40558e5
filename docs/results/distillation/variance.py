"""Measure what share of the variance of Lite0's maps the kept components hold, in percent.

    python docs/results/distillation/variance.py COREL5K

Writes variance.csv: for the images that choose the components, and for all others.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from torchvision.io import ImageReadMode, decode_image
from torchvision.transforms.v2.functional import resize

from mmssprl.console.tables import csv_table
from mmssprl.datasets.transforms.teacher_crop import grid_of
from mmssprl.distillation.teacher import load_teacher
from mmssprl.experiments.compare.images import read_images

HERE = Path(__file__).parent
NUM_CHOOSE = 1024  # images that choose the components, as in ``keep_maps``
NUM_COMPONENTS = 256
PX = 224


def covariance(teacher: torch.nn.Module, paths: list[str]) -> np.ndarray:
    """Return the covariance (C, C) of the cells of the maps of these images."""
    num = 0
    total: np.ndarray | float = 0.0
    products: np.ndarray | float = 0.0
    for path in paths:
        image = decode_image(path, ImageReadMode.RGB)
        grid = grid_of(image.shape[1], image.shape[2], teacher.num_cells(PX))
        sides = [side * teacher.stride for side in grid]
        found = teacher(resize(image, sides, antialias=True)[None])
        cells = found[0].flatten(1).T.double().numpy()  # (h w, C)
        num += len(cells)
        total = total + cells.sum(axis=0)
        products = products + cells.T @ cells

    mean = total / num
    return products / num - np.outer(mean, mean)


def main() -> None:
    """Write variance.csv."""
    paths = read_images(Path(sys.argv[1]), "test").train.paths
    order = np.random.default_rng(0).permutation(len(paths))
    teacher = load_teacher("lite:lite0")
    rows = []
    components = None
    for title, chosen in (("choose", order[:NUM_CHOOSE]), ("others", order[NUM_CHOOSE:])):
        found = covariance(teacher, [str(paths[index]) for index in chosen])
        if components is None:
            components = np.linalg.eigh(found)[1][:, -NUM_COMPONENTS:]

        held = np.trace(components.T @ found @ components)
        share = 100 * float(held / np.trace(found))
        rows.append([title, len(chosen), NUM_COMPONENTS, share])

    names = ["images", "number", "components", "variance"]
    (HERE / "variance.csv").write_text(csv_table(names, rows))


if __name__ == "__main__":
    main()
