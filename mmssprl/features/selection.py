"""Images to label next, to look at and to delete, chosen by features alone.

Legend: N images, C features, L labelled images.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.cluster import KMeans, MiniBatchKMeans

from ..console.tables import csv_cell
from ..errors import UserFileNotFoundError, UserValueError
from .embeddings import Embeddings, find_changes, read_embeddings, unit_norm
from .neighbor_search import nearest, rows_of

NUM = 100
_NEAREST = 20
"""Of an image's density, as in Hacohen et al., arXiv:2202.02794."""
_MOST_EXACT_CLUSTERS = 50
"""More of them are found by k-means on small batches, as there."""
_ROWS_AT_A_TIME = 256
_ROUNDING = 1e-6
"""By so much the float32 cosine of two equal images may lie below 1."""


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
    labelled: Embeddings | str | Path | Sequence[str] | None = None,
    above: float = 0.999,
) -> list[Selected]:
    """Choose images to label, to look at or to delete.

    * 'diverse': as far from each other as can be, by greedy k-center (Gonzalez, 1985; Sener and
      Savarese, arXiv:1708.00489). The first is the one nearest to the mean, unless there are
      labelled ones. ``cosine`` is that to the nearest one chosen before, or labelled; that of the
      first to the mean.
    * 'typical': of each of ``num`` clusters the densest image, the largest cluster first, as
      TypiClust does (arXiv:2202.02794) with scikit-learn's k-means. ``cosine`` is the density: the
      mean of those to the 20 nearest images of the cluster.
    * 'outliers': the least dense of all images, the loneliest first. ``cosine`` is the density.
    * 'duplicates': groups of images that are linked by cosines of at least ``above``, the largest
      group first, and in each the image of the most pixels, which is kept. ``cosine`` is that to
      the kept one.

    The same arguments give the same images. ``pandas.DataFrame`` makes a table of what is returned.

    Args:
        embeddings: What ``embed`` returned, or its file. Rows of patches do not count.
        num: How many images, at most as many as there are; None takes 100. Of duplicates how many
            groups at most; None takes all.
        method: What the images are for.
        labelled: Images that are labelled already, for 'diverse': names of ``embeddings``, a CSV
            file with them in a column ``image``, as the command writes it, or embeddings of others
            by the same weights, or their file.
        above: Least cosine of duplicates, in [-1, 1].

    Raises:
        FileNotFoundError: A file that does not exist.
        ValueError: Numbers out of range, files of something else, names that are not among the
            embeddings, or labelled embeddings of other weights.
    """
    if not isinstance(embeddings, Embeddings):
        embeddings = read_embeddings(embeddings)
    known = embeddings.of_scale(0)
    if len(known) < 2:
        raise UserValueError(f"embeddings must be of at least 2 images, but are of {len(known)}.")
    if labelled is not None and method != "diverse":
        raise UserValueError(f"labelled goes with method 'diverse', but got {method!r}.")
    if not -1 <= above <= 1:
        raise UserValueError(f"above must be a cosine in [-1, 1], but got {above}.")
    seen, rows = _labelled(known, labelled)
    most = len(known) - len(rows)
    if num is not None and not 1 <= num <= most:
        raise UserValueError(f"num must be from 1 to the {most:,} images, but got {num}.")
    if method == "duplicates":
        return [each for each in _duplicates(known, above) if num is None or each.rank <= num]
    num = min(NUM, most) if num is None else num
    if method == "diverse":
        chosen = _diverse(known.features, num, seen, rows)
    elif method == "typical":
        chosen = _typical(known.features, num)
    else:
        density = densities(known.features)
        order = np.argsort(density, kind="stable")[:num]
        chosen = [(int(row), float(density[row])) for row in order]
    return [Selected(known.names[row], i, cosine) for i, (row, cosine) in enumerate(chosen, 1)]


def densities(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the mean cosine (N,) of images (N, C) to the 20 nearest to each; 1 of one alone."""
    rows = torch.from_numpy(features)
    _, cosines = nearest(rows, rows, _NEAREST, excluded=np.arange(len(rows)))
    return cosines.mean(dim=1).nan_to_num(1.0).numpy()


def k_center(
    units: NDArray[np.float32], num: int, closeness: NDArray[np.float32]
) -> list[tuple[int, float]]:
    """Choose rows of unit norm (N, C), each the farthest from those chosen before.

    Args:
        units: Their cosines order them as their distances do.
        num: How many.
        closeness: Cosine of each to the nearest one chosen before, (N,): the least is chosen first.

    Returns:
        Each row with its closeness when it was chosen.
    """
    chosen = []
    for _ in range(num):
        row = int(closeness.argmin())
        chosen.append((row, float(closeness[row])))
        closeness = np.maximum(closeness, units @ units[row])
        closeness[row] = np.inf
    return chosen


def _diverse(
    features: NDArray[np.float32], num: int, seen: NDArray[np.float32], rows: list[int]
) -> list[tuple[int, float]]:
    """Return rows and cosines; ``seen`` (L, C) are labelled ones, of which ``rows`` are known."""
    units = unit_norm(features)
    if len(seen):
        _, cosines = nearest(torch.from_numpy(features), torch.from_numpy(seen), 1)
        closeness = cosines[:, 0].numpy()
        closeness[rows] = np.inf
        return k_center(units, num, closeness)
    to_mean = units @ unit_norm(units.mean(axis=0, keepdims=True))[0]
    closeness = np.full(len(units), -1, np.float32)
    closeness[to_mean.argmax()] = -2  # below all cosines, so that it is chosen first
    (first, _), *others = k_center(units, num, closeness)
    return [(first, float(to_mean[first])), *others]


def _typical(features: NDArray[np.float32], num: int) -> list[tuple[int, float]]:
    """Return the densest image of each cluster, then the densest others if clusters are empty."""
    kind = KMeans if num <= _MOST_EXACT_CLUSTERS else MiniBatchKMeans
    cluster = kind(num, n_init=1, random_state=0).fit_predict(unit_norm(features))
    density = np.empty(len(features), np.float32)
    size = np.ones(len(features), int)  # of the cluster, negative, for its densest image alone
    for each in np.unique(cluster):
        rows = np.flatnonzero(cluster == each)
        density[rows] = densities(features[rows])
        size[rows[density[rows].argmax()]] = -len(rows)
    order = np.lexsort((-density, size))[:num]
    return [(int(row), float(density[row])) for row in order]


def _duplicates(known: Embeddings, above: float) -> list[Selected]:
    units = unit_norm(known.features)
    num = len(units)
    group = np.arange(num)  # of each image one that stands for its group
    for start in range(0, num, _ROWS_AT_A_TIME):
        block = units[start : start + _ROWS_AT_A_TIME] @ units[start:].T
        ends = np.stack(np.nonzero(block >= above - _ROUNDING)) + start  # (2, links)
        links = np.concatenate([ends, [np.arange(num), group]], axis=1)
        graph = coo_array((np.ones(links.shape[1], bool), tuple(links)), shape=(num, num))
        _, label = connected_components(graph, directed=False)
        group = np.unique(label, return_index=True)[1][label]
    # A centre crop lies in the middle: the sum of its sides is the image's width, or height.
    pixels = (known.boxes[:, 0] + known.boxes[:, 2]) * (known.boxes[:, 1] + known.boxes[:, 3])
    sizes = np.bincount(group)
    found = []
    heads = np.flatnonzero(sizes > 1)
    for rank, head in enumerate(heads[np.argsort(-sizes[heads], kind="stable")], 1):
        rows = np.flatnonzero(group == head)
        kept = rows[pixels[rows].argmax()]
        others = rows[rows != kept]
        cosines = units[others] @ units[kept]
        found.append(Selected(known.names[kept], rank, 1.0))
        for i in np.argsort(-cosines, kind="stable"):
            found.append(Selected(known.names[others[i]], rank, float(cosines[i]), keep=False))
    return found


def _labelled(
    known: Embeddings, labelled: Embeddings | str | Path | Sequence[str] | None
) -> tuple[NDArray[np.float32], list[int]]:
    """Return the features (L, C) of labelled images, and which rows of the known ones they are."""
    if labelled is None:
        return known.features[:0], []
    if isinstance(labelled, str | Path) and Path(labelled).suffix != ".csv":
        labelled = read_embeddings(labelled)
    if isinstance(labelled, Embeddings):
        others = {key: known.about.get(key) for key in ("images_sha256", "levels")}
        if changes := find_changes({**labelled.about, **others}, known.about):
            raise UserValueError(
                "labelled must be embedded as the embeddings are, but "
                f"{changes} changed; run `embed` again."
            )
        return labelled.of_scale(0).features, []
    names = labelled if not isinstance(labelled, str | Path) else _read_names(Path(labelled))
    rows = sorted(set(rows_of(known, names, "labelled")))
    return known.features[rows], rows


def _read_names(path: Path) -> list[str]:
    if not path.is_file():
        raise UserFileNotFoundError(f"labelled must be a file, but there is no {path}.")
    with path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        lines = csv.DictReader(file)
        if "image" not in (lines.fieldnames or ()):
            raise UserValueError(
                f"labelled must have a column `image`, as `select --csv` writes it, but {path} has "
                "none; name it so."
            )
        names = [line["image"] for line in lines]
    return [name[1:] if csv_cell(name[1:]) == name else name for name in names]
