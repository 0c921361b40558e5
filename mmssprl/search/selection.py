"""Select images to label, to look at or to delete by their features.

Legend: N images, C features.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.cluster import KMeans
from sklearn.preprocessing import normalize

from ..errors import UserValueError
from .embeddings import Embeddings, read_embeddings
from .neighbor_search import nearest

NUM = 100
_NEAREST = 20  # neighbours for an image's density, as in Hacohen et al., arXiv:2202.02794
_ALIKE = 0.9999
"""Cosine to the mean above which features hardly differ: an angle of 0.8 degrees."""
_ROUNDING = 1e-6  # error of the float32 cosine of two equal images
_PAIRS_AT_A_TIME = 2**21
"""Pairs of images that are compared at a time, which take less than 0.2 GB."""


@dataclass(frozen=True)
class Selected:
    """A selected image.

    Attributes:
        image: Its name in the embeddings.
        rank: 1 for the first; for duplicates the number of their group.
        cosine: The cosine that it was selected by, see ``select``.
        keep: False for a duplicate that can be deleted.
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
    """Select images to label, to look at or to delete. The result is deterministic.

    * 'diverse': greedy k-center (Gonzalez, 1985; Sener and Savarese, arXiv:1708.00489), starting
      with the image nearest to the mean. ``cosine`` is to the nearest image selected before, 1 for
      the first.
    * 'typical': the densest image of each of ``num`` k-means clusters, the largest cluster first,
      as TypiClust (arXiv:2202.02794). ``cosine`` is the mean over its 20 nearest in the cluster.
    * 'outliers': the least dense images. ``cosine`` is the mean over the 20 nearest images.
    * 'duplicates': groups of images linked by cosines of at least ``above``, the largest group
      first. In each the image with most pixels is kept, of these the largest file, and rather a
      file than a link to it; ``cosine`` is to the kept one.

    Args:
        embeddings: Result of ``embed``, or its file.
        num: Number of images; None takes 100, but at most half of the images. For duplicates the
            maximum number of groups; None takes all.
        method: See above.
        above: Minimum cosine of duplicates, in [-1, 1].

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: A number is out of range, features are not finite, or the file is of another
            kind.
    """
    if not isinstance(embeddings, Embeddings):
        embeddings = read_embeddings(embeddings)
    embeddings.require_finite()
    if not -1 <= above <= 1:
        raise UserValueError(f"above must be a cosine in [-1, 1], but got {above}.")
    most = len(embeddings)
    if num is not None and not 1 <= num <= most:
        raise UserValueError(f"num must be in [1, {most:,}], the number of images, but got {num}.")

    if method == "duplicates":
        return [each for each in _duplicates(embeddings, above) if num is None or each.rank <= num]
    num = num or max(1, min(NUM, most // 2))
    if method == "diverse":
        units = normalize(embeddings.features)
        chosen = k_center(units, num, first=int((units @ units.mean(axis=0)).argmax()))
    elif method == "typical":
        chosen = _typical(embeddings.features, num)
    else:
        density = densities(embeddings.features)
        chosen = [(row, density[row]) for row in np.argsort(density, kind="stable")[:num]]
    return [Selected(embeddings.names[row], i, float(c)) for i, (row, c) in enumerate(chosen, 1)]


def hardly_differ(embeddings: Embeddings) -> bool:
    """Whether most images have a cosine above 0.9999 to the mean, so that no order says much."""
    units = normalize(embeddings.features)
    mean = normalize(units.mean(axis=0, keepdims=True))[0]
    return len(units) > 1 and float(np.median(units @ mean)) > _ALIKE


def densities(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the mean cosine (N,) of each image (N, C) to its 20 nearest; 1 for a single image."""
    rows = torch.from_numpy(features)
    _, cosines = nearest(rows, rows, _NEAREST, excluded=torch.arange(len(rows)))
    return cosines.mean(dim=1).nan_to_num(1.0).numpy()


def k_center(units: NDArray[np.float32], num: int, *, first: int) -> list[tuple[int, float]]:
    """Select rows of unit norm (N, C), each the farthest from those before, with its cosine."""
    chosen = [(first, 1.0)]
    closeness = np.full(len(units), -np.inf, np.float32)
    while len(chosen) < num:
        latest, _ = chosen[-1]
        closeness = np.maximum(closeness, units @ units[latest])
        closeness[latest] = np.inf  # never selected again
        row = int(closeness.argmin())
        chosen.append((row, float(closeness[row])))
    return chosen


def _typical(features: NDArray[np.float32], num: int) -> list[tuple[int, float]]:
    """Return the densest image of each cluster, then other dense ones if clusters are empty."""
    cluster = KMeans(num, n_init=1, random_state=0).fit_predict(normalize(features))
    density = np.empty(len(features), np.float32)
    size = np.ones(len(features), int)  # minus the cluster's size, for its densest image only
    for each in np.unique(cluster):
        rows = np.flatnonzero(cluster == each)
        density[rows] = densities(features[rows])
        size[rows[density[rows].argmax()]] = -len(rows)
    return [(row, density[row]) for row in np.lexsort((-density, size))[:num]]


def linked_groups(units: NDArray[np.float32], most: float) -> NDArray[np.int64]:
    """Return the group (N,) of rows of unit norm (N, C), numbered by their first rows.

    Chains of rows with a distance, 1 - cosine, of at most ``most`` are one group.
    """
    num = len(units)
    group = np.arange(num)
    step = max(1, _PAIRS_AT_A_TIME // num)
    for start in range(0, num, step):
        distances = 1 - units[start : start + step] @ units[start:].T
        first, second = np.nonzero(distances <= most)
        ends = group[start + np.stack([first, second])]  # (2, links)
        ends = ends[:, ends[0] != ends[1]]
        if ends.size:
            links = coo_array((np.ones(ends.shape[1]), tuple(ends)), shape=(num, num))
            # It numbers components by their first node, which is a group until now.
            _, joined = connected_components(links, directed=False)
            group = joined[group]
    return group


def _duplicates(known: Embeddings, above: float) -> list[Selected]:
    units = normalize(known.features)
    group = linked_groups(units, max(1 - above, 0) + _ROUNDING)
    sizes = np.bincount(group)
    # The crop is centred, so left + right is the image's width, and top + bottom its height.
    pixels = (known.boxes[:, 0] + known.boxes[:, 2]) * (known.boxes[:, 1] + known.boxes[:, 3])
    # Of equal pixels the larger file has more quality, bits, channels or pages.
    file_bytes = known.identities[:, 0] if len(known.identities) else np.zeros_like(pixels)

    def is_link(row: int) -> bool:
        return os.path.islink(os.path.join(known.about.get("images", ""), known.names[row]))

    found = []
    several = np.flatnonzero(sizes > 1)
    for rank, label in enumerate(several[np.argsort(-sizes[several], kind="stable")], 1):
        rows = np.flatnonzero(group == label).tolist()
        # Of a file and a link to it, the link can go.
        kept, *others = sorted(rows, key=lambda i: (-pixels[i], -file_bytes[i], is_link(i)))
        found.append(Selected(known.names[kept], rank, 1.0))
        cosines = units[others] @ units[kept]
        for i in np.argsort(-cosines, kind="stable"):
            found.append(Selected(known.names[others[i]], rank, float(cosines[i]), keep=False))
    return found
