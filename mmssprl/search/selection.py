"""Images to label next, to look at and to delete, chosen by features alone.

Legend: N images, C features.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.cluster import DBSCAN, KMeans
from sklearn.preprocessing import normalize

from ..errors import UserValueError
from .embeddings import Embeddings, read_embeddings
from .neighbor_search import nearest

NUM = 100
_NEAREST = 20  # of an image's density, as in Hacohen et al., arXiv:2202.02794
_ROUNDING = 1e-6  # of the float32 cosine of two equal images


@dataclass(frozen=True)
class Selected:
    """One image that was chosen.

    Attributes:
        image: Its name in the embeddings.
        rank: 1 for the first; of duplicates the number of their group.
        cosine: What it was chosen by, see ``select``.
        keep: False for a duplicate that can go.
    """

    image: str
    rank: int
    cosine: float
    keep: bool = True


def select(
    embeddings: Embeddings | str | Path,
    *,
    num: int | None = None,
    method: Literal["diverse", "typical", "outliers", "duplicates"] = "diverse",
    above: float = 0.999,
) -> list[Selected]:
    """Choose images to label, to look at or to delete; the same arguments give the same images.

    * 'diverse': as far from each other as can be, by greedy k-center (Gonzalez, 1985; Sener and
      Savarese, arXiv:1708.00489), from the image nearest to the mean on. ``cosine`` is that to the
      nearest one chosen before, 1 for the first.
    * 'typical': of each of ``num`` clusters (k-means) the densest image, the largest cluster first,
      as TypiClust (arXiv:2202.02794). ``cosine`` is the mean of those to its 20 nearest there.
    * 'outliers': the least dense of all. ``cosine`` is the mean of those to the 20 nearest images.
    * 'duplicates': groups of images that are linked by cosines of at least ``above``, the largest
      group first, and in each the image of the most pixels, which is kept. ``cosine`` is that to
      the kept one.

    Args:
        embeddings: What ``embed`` returned, or its file.
        num: How many images; None takes 100, or all if there are fewer. Of duplicates how many
            groups at most; None takes all.
        method: What the images are for.
        above: Least cosine of duplicates, in [-1, 1].

    Raises:
        FileNotFoundError: A file that does not exist.
        ValueError: Numbers out of range, or a file of something else.
    """
    if not isinstance(embeddings, Embeddings):
        embeddings = read_embeddings(embeddings)
    if not -1 <= above <= 1:
        raise UserValueError(f"above must be a cosine in [-1, 1], but got {above}.")
    most = len(embeddings)
    if num is not None and not 1 <= num <= most:
        raise UserValueError(f"num must be from 1 to the {most:,} images, but got {num}.")
    if method == "duplicates":
        return [each for each in _duplicates(embeddings, above) if num is None or each.rank <= num]
    num = num or min(NUM, most)
    if method == "diverse":
        units = normalize(embeddings.features)
        chosen = k_center(units, num, first=int((units @ units.mean(axis=0)).argmax()))
    elif method == "typical":
        chosen = _typical(embeddings.features, num)
    else:
        density = densities(embeddings.features)
        chosen = [(row, density[row]) for row in np.argsort(density, kind="stable")[:num]]
    return [Selected(embeddings.names[row], i, float(c)) for i, (row, c) in enumerate(chosen, 1)]


def densities(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the mean cosine (N,) of images (N, C) to the 20 nearest to each; 1 of one alone."""
    rows = torch.from_numpy(features)
    _, cosines = nearest(rows, rows, _NEAREST, excluded=np.arange(len(rows)))
    return cosines.mean(dim=1).nan_to_num(1.0).numpy()


def k_center(units: NDArray[np.float32], num: int, *, first: int) -> list[tuple[int, float]]:
    """Choose rows of unit norm (N, C), each the farthest from those before, with that cosine."""
    chosen = [(first, 1.0)]
    closeness = np.full(len(units), -np.inf, np.float32)
    while len(chosen) < num:
        latest, _ = chosen[-1]
        closeness = np.maximum(closeness, units @ units[latest])
        closeness[latest] = np.inf  # for good: none is chosen twice
        row = int(closeness.argmin())
        chosen.append((row, float(closeness[row])))
    return chosen


def _typical(features: NDArray[np.float32], num: int) -> list[tuple[int, float]]:
    """Return the densest image of each cluster, then the densest others if clusters are empty."""
    cluster = KMeans(num, n_init=1, random_state=0).fit_predict(normalize(features))
    density = np.empty(len(features), np.float32)
    size = np.ones(len(features), int)  # of the cluster, negative, for its densest image alone
    for each in np.unique(cluster):
        rows = np.flatnonzero(cluster == each)
        density[rows] = densities(features[rows])
        size[rows[density[rows].argmax()]] = -len(rows)
    return [(row, density[row]) for row in np.lexsort((-density, size))[:num]]


def _duplicates(known: Embeddings, above: float) -> list[Selected]:
    units = normalize(known.features)
    within = DBSCAN(max(1 - above, 0) + _ROUNDING, min_samples=1, metric="cosine")
    group = within.fit_predict(units)  # by its first image
    # A centre crop lies in the middle: the sum of its sides is the image's width, or height.
    pixels = (known.boxes[:, 0] + known.boxes[:, 2]) * (known.boxes[:, 1] + known.boxes[:, 3])
    sizes = np.bincount(group)
    found = []
    several = np.flatnonzero(sizes > 1)
    for rank, label in enumerate(several[np.argsort(-sizes[several], kind="stable")], 1):
        rows = np.flatnonzero(group == label)
        kept = rows[pixels[rows].argmax()]
        others = rows[rows != kept]
        cosines = units[others] @ units[kept]
        found.append(Selected(known.names[kept], rank, 1.0))
        for i in np.argsort(-cosines, kind="stable"):
            found.append(Selected(known.names[others[i]], rank, float(cosines[i]), keep=False))
    return found
