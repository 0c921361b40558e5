"""Probe a feature map on two questions about masks, and score each test image by itself.

    python docs/results/deployed/dense.py WEIGHTS VOC128 OUT.json [--config CONFIG] [--seed SEED]

A linear classifier is fitted to the cells of the feature maps of the training images, as `mmssprl
probe` does. It tells foreground from background, or the five classes that most training images show
from the rest. The IoU of a test image is the mean over the classes that its mask shows.
"""

import argparse
import json
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from mmssprl.datasets.labels import LabelledData, find_labels
from mmssprl.datasets.labels.label_maps import IGNORED, read_label_map
from mmssprl.features.backbone import FeatureBackbone, load_backbone
from mmssprl.features.extract import FeatureOptions
from mmssprl.probing.data import extract_files
from mmssprl.probing.dense import WholeImage, cell_pixels, count_pixels
from mmssprl.probing.linear_classifier import fit_softmax_probe

IMAGE_PX = 224
NUM_FREQUENT = 5
STRENGTHS = (1.0, 0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-5)
NUM_FOLDS = 2
Labels = NDArray[np.uint8]
"""The class of each pixel (H, W), or ``IGNORED``."""


def most_frequent(labels: list[Labels]) -> list[int]:
    """Return the classes but 0 that most images show, of equals the one with more pixels."""
    num_images: Counter[int] = Counter()
    num_pixels: Counter[int] = Counter()
    for each in labels:
        shown, counts = np.unique(each[(each != IGNORED) & (each != 0)], return_counts=True)
        num_images.update(shown.tolist())
        num_pixels.update(dict(zip(shown.tolist(), counts.tolist(), strict=True)))
    ranked = sorted(num_images, key=lambda k: (num_images[k], num_pixels[k]), reverse=True)
    return ranked[:NUM_FREQUENT]


def questions(num_classes: int, frequent: list[int]) -> dict[str, Labels]:
    """Return the new index of each old one, by question; ``IGNORED`` stays."""
    foreground = np.ones(256, np.uint8)
    foreground[0] = 0
    five = np.zeros(256, np.uint8)
    for new, old in enumerate(frequent, start=1):
        five[old] = new
    for table in (foreground, five):
        table[num_classes:] = IGNORED
    return {"foreground": foreground, "five classes": five}


def shown_iou(confusion: Tensor) -> float:
    """Return the mean IoU of the classes that a mask shows, from its confusion matrix (K, K)."""
    hits, shown = confusion.diag(), confusion.sum(dim=1)
    union = shown + confusion.sum(dim=0) - hits
    is_shown = shown > 0
    return float((hits[is_shown] / union[is_shown]).mean())


def read_split(
    found: LabelledData, name: str, model: FeatureBackbone
) -> tuple[Tensor, list[Labels]]:
    """Return feature maps (N, C, h, w) and label maps of a split."""
    images = getattr(found, name)
    paths = [image.path for image in images]
    maps = []
    labels = []
    options = FeatureOptions(progress=False, num_workers=0)
    crops = WholeImage(model.image_px)
    for batch in extract_files(model, name, paths, crops, options, pooled=False):
        maps.append(batch.features[:, 0])
        labels += [read_label_map(images[index]) for index in batch.indices]
    return torch.cat(maps), labels


def score(
    train: tuple[Tensor, list[Labels]], test: tuple[Tensor, list[Labels]], table: Labels, seed: int
) -> dict:
    """Fit a classifier for one question, and return the IoU of each test image."""
    maps, labels = train
    num_images, _, *grid = maps.shape
    num_classes = int(table[table != IGNORED].max()) + 1
    features = maps.movedim(1, -1).flatten(0, 2)  # (N h w, C)
    shares = torch.cat(
        [cell_pixels(table[each], tuple(grid), num_classes) / each.size for each in labels]
    )
    images = torch.arange(num_images).repeat_interleave(grid[0] * grid[1])
    kept = shares.any(dim=1)
    classifier = fit_softmax_probe(
        features[kept],
        shares[kept] * (grid[0] * grid[1]),
        groups=images[kept],
        strengths=STRENGTHS,
        num_folds=NUM_FOLDS,
        seed=seed,
    )
    ious = []
    constant = []
    frequent = int(shares.sum(dim=0).argmax())
    for one, truth in zip(test[0], test[1], strict=True):
        logits = classifier(one.movedim(0, -1)).movedim(-1, 0)  # (K, h, w)
        scores = F.interpolate(logits[None], truth.shape, mode="bilinear")[0]
        predicted = scores.argmax(dim=0)
        ious.append(shown_iou(count_pixels(predicted, table[truth], num_classes)))
        same = torch.full_like(predicted, frequent)
        constant.append(shown_iou(count_pixels(same, table[truth], num_classes)))
    return {
        "IoU": 100 * float(np.mean(ious)),
        "constant": 100 * float(np.mean(constant)),
        "num_train": num_images,
        "num_val": len(ious),
        "per_image": [round(100 * value, 2) for value in ious],
    }


def main() -> None:
    """Write the scores of both questions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("weights")
    parser.add_argument("voc", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--config")
    parser.add_argument("--seed", type=int, default=0, help="of random weights, and of the folds")
    asked = parser.parse_args()
    found = find_labels(asked.voc, "dense")
    model = load_backbone(asked.weights, asked.config, image_px=IMAGE_PX, seed=asked.seed)
    train, test = (read_split(found, name, model) for name in ("train", "val"))
    frequent = most_frequent(train[1])
    print("the most frequent:", *(found.classes[index] for index in frequent))
    tables = questions(len(found.classes), frequent)
    scores = {name: score(train, test, table, asked.seed) for name, table in tables.items()}
    asked.out.write_text(json.dumps(scores))


if __name__ == "__main__":
    main()
