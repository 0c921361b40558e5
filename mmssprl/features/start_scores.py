"""What features are worth without labels, and how sure it is that a training has changed it.

Legend: N images, C features, K classes, D draws of a bootstrap.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ..datasets import UnlabeledImages
from ..functional.health import effective_rank
from ..system.outputs import whole_file
from ..weights.torch_file import load_torch
from .backbone import Crops, FeatureBackbone
from .extract import FeatureOptions, extract

_DRAWS = 500
_NORMAL = 1.96  # deviations, either way, that hold 95 % of a normal distribution


class Scored(NamedTuple):
    """What each test image says: scores (N, K) and labels as of a probe, or hits (N,) alone."""

    values: Tensor
    labels: Tensor | None = None

    def means(self, counts: Tensor) -> Tensor:
        """Return the score (D,), mAP or the share of hits, of images drawn ``counts`` (D, N)."""
        if self.labels is None:
            return counts @ self.values / counts.sum(dim=1)
        areas = []
        for scores, labels in zip(self.values.double().T, self.labels.T, strict=True):
            order = scores.argsort(descending=True)
            drawn, labels = counts[:, order], labels[order]
            positive = drawn * (labels == 1)
            precision = positive.cumsum(dim=1) / (drawn * (labels >= 0)).cumsum(dim=1).clamp(min=1)
            areas.append((positive * precision).sum(dim=1) / positive.sum(dim=1))
        return torch.stack(areas).nanmean(dim=0)

    def half_width(self, start: "Scored") -> float | None:
        """Return half a 95 % interval of the difference to the start, by a paired bootstrap.

        None if they are not the same images, as after one has become unreadable.
        """
        if self.values.shape != start.values.shape:
            return None
        num = len(self.values)
        draws = np.random.default_rng(0).multinomial(num, np.full(num, 1 / num), _DRAWS)
        counts = torch.from_numpy(draws).double()  # (D, N)
        differences = self.means(counts) - start.means(counts)
        return _NORMAL * differences[differences.isfinite()].std().item()

    def save(self, path: Path) -> None:
        """Write them for ``read_scored``."""
        with whole_file(path, "wb") as file:
            torch.save(self._asdict(), file)


def read_scored(path: Path) -> Scored | None:
    """Return what was saved; None if there is no such file."""
    return Scored(**load_torch(path)) if path.is_file() else None


def score_halves(
    model: FeatureBackbone, images: UnlabeledImages, options: FeatureOptions
) -> tuple[Scored, float]:
    """Look for the right half of each image among all right halves by the features of its left.

    Chance is 1 / N.

    Returns:
        Whether the nearest by cosine is the image's own, float64 (N,) of the readable images; and
        RankMe (Garrido et al., ICML 2023) of the features of all halves, 1 to min(2 N, C).
    """

    def read(index: int) -> Tensor:
        image = images.load_image(index // 2)  # (3, H, W)
        return image.tensor_split(2, dim=2)[index % 2]

    batches = extract(model, read, range(2 * len(images)), Crops(model.image_px), options)
    found = [batch.features[:, 0] for batch in batches if batch.indices]
    features = torch.cat(found)  # (2 N, C), left and right in turn
    left, right = F.normalize(features.double(), dim=1).unflatten(0, (-1, 2)).unbind(dim=1)
    nearest = (left @ right.T).argmax(dim=1)
    hits = (nearest == torch.arange(len(nearest))).double()
    return Scored(hits), effective_rank(features).item()
