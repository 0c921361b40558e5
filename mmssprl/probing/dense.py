"""Dense probe: mIoU of a linear classifier on a backbone's feature map, on unseen images.

Legend: B images of a batch, C features, K classes, H, W height and width of a label map, h, w those
of a feature map, N cells of all feature maps that are fitted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F
from torchvision.transforms.v2 import functional as transforms

from ..datasets.labels import LabelledData, LabelledImage
from ..datasets.labels.label_maps import IGNORED, read_label_map
from ..datasets.labels.labelled_images import groups_of
from ..errors import UserValueError
from ..features.backbone import FeatureBackbone
from ..features.crops import Crops
from ..features.extract import FeatureOptions
from ..system.environment import choose_device
from .data import extract_files
from .linear_classifier import STRENGTHS, fit_softmax_probe
from .measures import by_class, count_pixels, mean_iou

_NUM_FOLDS = 2
_STRENGTHS = STRENGTHS[1:3] + STRENGTHS[3::2]  # 1 to 1e-5
_LEAST_IMAGES = 10
_LEAST_CLASSES = 2
_MOST_VALUES = 2**26
"""Maximum number of values N max(C, K) of a fit, which needs about four times as much memory."""


@dataclass(frozen=True)
class WholeImage(Crops):
    """The whole image, resized to the square of ``image_px``."""

    def cut(self, image: Tensor) -> list[Tensor]:
        """Resize an image (3, H, W) to uint8 (1, 3, px, px)."""
        return [transforms.resize(image, [self.image_px] * 2, antialias=True)[None]]


@dataclass(frozen=True, kw_only=True)
class DenseProbeResult:
    """Scores of a linear classifier on feature maps.

    Attributes:
        mIoU: Mean IoU over the classes, in [0, 1].
        chance_mIoU: mIoU of predicting the training images' most frequent class everywhere.
        per_class: IoU of each class; None if neither masks nor predictions show it.
        strength: Penalty of the classifier.
        held_out_mIoU: mIoU of cells of held-out training images, by penalty.
        num_train, num_test: Images with masks that the classifier was fitted and tested on.
        num_cells: Cells of the feature map of an image.
    """

    mIoU: float  # noqa: N815
    chance_mIoU: float  # noqa: N815
    per_class: dict[str, float | None]
    strength: float
    held_out_mIoU: dict[str, float]  # noqa: N815
    num_train: int
    num_test: int
    num_cells: int


def score_maps(
    found: LabelledData, model: FeatureBackbone, options: FeatureOptions
) -> DenseProbeResult:
    """Fit a linear classifier on the cells of feature maps, and score it on pixels.

    The target of a cell is the share of each class among its pixels, and its weight is the share of
    its pixels that are labelled. The logits of a test image are upsampled bilinearly to its label
    map. ``found`` is the result of ``find_labels`` for 'dense'.
    """
    device = choose_device(options.device)
    features, shares, images = _cells(found, model, options)
    options.tell(f"linear classifier on {len(features):,} cells of {features.shape[1]} features")
    classifier = fit_softmax_probe(
        features.to(device),
        shares.to(device),
        groups=torch.tensor(groups_of(found.train))[images],
        strengths=_STRENGTHS,
        num_folds=_NUM_FOLDS,
        seed=options.seed,
    )

    num_classes = len(found.classes)
    confusion = torch.zeros(num_classes, num_classes, dtype=torch.float64)
    num_test = 0
    for maps, labels, _ in _maps(model, "val", found.val, options):
        num_test += len(maps)

        logits = classifier(maps.movedim(1, -1).to(device)).movedim(-1, 1)  # (B, K, h, w)
        for one, truth in zip(logits, labels, strict=True):
            scores = F.interpolate(one[None], truth.shape, mode="bilinear")[0]  # (K, H, W)
            confusion += count_pixels(scores.argmax(dim=0), truth, num_classes)

    if not confusion.any():
        raise UserValueError(
            f"masks of test images must label pixels, but none of {num_test} does; label some."
        )
    mean, each = mean_iou(confusion)
    return DenseProbeResult(
        mIoU=mean,
        chance_mIoU=chance_miou(shares.sum(dim=0), confusion.sum(dim=1)),
        per_class=by_class(found.classes, each.tolist()),
        strength=classifier.strength,
        held_out_mIoU={str(key): value for key, value in classifier.held_out.items()},
        num_train=len(images.unique()),
        num_test=num_test,
        num_cells=maps[0, 0].numel(),
    )


def cell_pixels(labels: NDArray[np.uint8], grid: tuple[int, int], num_classes: int) -> Tensor:
    """Count the pixels of each class in each cell of a grid (h, w): float32 (h w, K).

    A pixel belongs to the cell of its upper left corner.
    """
    height, width = labels.shape
    rows, columns = grid
    row = np.arange(height) * rows // height
    column = np.arange(width) * columns // width
    place = (row[:, None] * columns + column) * num_classes + labels
    is_labelled = labels != IGNORED
    counts = np.bincount(place[is_labelled], minlength=rows * columns * num_classes)
    return torch.from_numpy(counts).float().view(-1, num_classes)


def chance_miou(train_pixels: Tensor, test_pixels: Tensor) -> float:
    """Return the mIoU of predicting the most frequent training class; pixel counts are (K,)."""
    constant = torch.diag(torch.zeros_like(test_pixels))
    constant[:, train_pixels.argmax()] = test_pixels
    return mean_iou(constant)[0]


def _cells(
    found: LabelledData, model: FeatureBackbone, options: FeatureOptions
) -> tuple[Tensor, Tensor, Tensor]:
    """Return features (N, C), shares of classes (N, K) and the image (N,) of the cells to fit.

    If there are too many cells for a fit, equally many are drawn from each image.
    """
    num_classes = len(found.classes)
    generator = torch.Generator().manual_seed(options.seed)
    parts: list[tuple[Tensor, Tensor, Tensor]] = []
    for maps, labels, indices in _maps(model, "train", found.train, options):
        _, num_features, height, width = maps.shape
        most = max(1, _MOST_VALUES // (max(num_features, num_classes) * len(found.train)))
        cells = maps.flatten(2).mT  # (B, h w, C)
        for own_cells, truth, index in zip(cells, labels, indices, strict=True):
            pixels = cell_pixels(truth, (height, width), num_classes)
            chosen = torch.randperm(len(own_cells), generator=generator)[:most]
            chosen = chosen[pixels[chosen].any(dim=1)]
            shares = pixels[chosen] * (len(own_cells) / truth.size)
            parts.append((own_cells[chosen], shares, torch.full((len(chosen),), index)))
    features, shares, images = map(torch.cat, zip(*parts, strict=True))

    num_images = len(images.unique())
    num_shown = int(shares.any(dim=0).sum())
    if num_images < _LEAST_IMAGES or num_shown < _LEAST_CLASSES:
        raise UserValueError(
            f"a dense probe needs at least {_LEAST_IMAGES} training images with masks of "
            f"{_LEAST_CLASSES} classes, but got {num_images} with {num_shown}; label more."
        )
    return features, shares, images


def _maps(
    model: FeatureBackbone, name: str, images: Sequence[LabelledImage], options: FeatureOptions
) -> Iterator[tuple[Tensor, list[NDArray[np.uint8]], list[int]]]:
    """Yield feature maps (B, C, h, w), label maps (H, W) and indices of the readable images."""
    paths = [image.path for image in images]
    crops = WholeImage(model.image_px)
    for batch in extract_files(model, name, paths, crops, options, pooled=False):
        if batch.indices:
            labels = [read_label_map(images[i]) for i in batch.indices]
            yield batch.features[:, 0], labels, batch.indices
