"""Find the nearest images by the cosine of their features.

Legend: Q queries, N images, C features, k neighbours of each query.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import UserValueError
from ..features.backbone import FeatureBackbone
from ..features.extract import FeatureOptions, Images, ImageSource, Weights
from .embeddings import Embeddings, embed_images, made_with, read_embeddings

_QUERIES_AT_A_TIME = 512


def nearest(
    queries: Tensor, features: Tensor, num: int, *, excluded: Tensor
) -> tuple[Tensor, Tensor]:
    """Find the nearest features (N, C) of queries (Q, C): indices int64 and cosines, both (Q, k).

    The nearest comes first; k is at most ``num``. ``excluded`` int64 (Q,) is the index of the
    feature that each query skips, or -1.
    """
    among = F.normalize(features.float(), dim=1)
    sought = F.normalize(queries.float(), dim=1)
    num = min(num, len(among) - int((excluded >= 0).any()))
    found = []
    blocks = (each.split(_QUERIES_AT_A_TIME) for each in (sought, excluded))
    for block, own in zip(*blocks, strict=True):
        cosines = block @ among.T  # (block, N)
        skips = own >= 0
        cosines[skips, own[skips]] = -torch.inf
        found.append(cosines.topk(num, dim=1))
    return torch.cat([each.indices for each in found]), torch.cat([each.values for each in found])


@dataclass(frozen=True)
class Neighbor:
    """A neighbour of an image.

    Attributes:
        query: Path of the query image.
        nearest: Path of the neighbour.
        rank: 1 for the nearest.
        cosine: Cosine of both features, in [-1, 1].
    """

    query: str
    nearest: str
    rank: int
    cosine: float


def neighbors(
    weights: Weights,
    queries: ImageSource,
    images: ImageSource,
    *,
    num: int = 8,
    embeddings: Embeddings | str | Path | None = None,
    config: str | Path | None = None,
    image_px: int | None = None,
    batch_size: int = 64,
    device: str | torch.device = "auto",
    progress: bool = True,
) -> list[Neighbor]:
    """Find the nearest images of each query image; an image is never its own neighbour.

    Args:
        weights: As for ``load_backbone``, or its result.
        queries: Images as for ``embed``: a folder, a file, a list.
        images: Images to search, as for ``embed``; may contain the queries.
        num: Number of neighbours of each query.
        embeddings: Result of ``embed`` for ``images``, or its file; None computes them.
        config, image_px, batch_size, device, progress: As for ``embed``.

    Returns:
        The neighbours of the first query, the nearest first, then of the second, ...

    Raises:
        ValueError: As ``embed``; ``num`` is below 1; embeddings are not finite, or of other weights
            or images, also if images have changed under their names.
        FileNotFoundError: A file or folder does not exist.
    """
    if num < 1:
        raise UserValueError(f"num must be at least 1, but got {num}.")
    options = FeatureOptions(config, image_px, batch_size, device, progress=progress)
    model = options.load(weights)
    among = Images(images, like=model)
    sought = among if queries is images else Images(queries, "queries", model)
    if embeddings is None:
        known = embed_images(model, among, options)
    else:
        known = _checked(embeddings, model, among, options)

    is_same = sought.paths(sought.names) == among.paths(among.names)
    asked = known if is_same else embed_images(model, sought, options)
    if asked.features.shape[1] != known.features.shape[1]:  # files need not say of which weights
        raise UserValueError(
            f"embeddings must have {asked.features.shape[1]} features, as the weights give, but "
            f"have {known.features.shape[1]}; run `embed` again."
        )

    paths = among.paths(known.names)
    query_paths = sought.paths(asked.names)
    rows = {path: row for row, path in enumerate(paths)}
    indices, cosines = nearest(
        torch.from_numpy(asked.features),
        torch.from_numpy(known.features),
        num,
        excluded=torch.tensor([rows.get(path, -1) for path in query_paths]),
    )

    found = []
    columns = (query_paths, indices.tolist(), cosines.clamp(-1, 1).tolist())
    for path, nearest_rows, values in zip(*columns, strict=True):
        for rank, (row, cosine) in enumerate(zip(nearest_rows, values, strict=True), 1):
            found.append(Neighbor(path, paths[row], rank, cosine))
    return found


_DECISIVE = ("weights_sha256", "image_px", "mean", "std")


def _checked(
    embeddings: Embeddings | str | Path,
    model: FeatureBackbone,
    images: Images,
    options: FeatureOptions,
) -> Embeddings:
    """Return embeddings; raise ValueError if they are of other weights or images, or not finite."""
    if not isinstance(embeddings, Embeddings):
        embeddings = read_embeddings(embeddings)
    embeddings.require_finite()

    about = embeddings.about
    now = made_with(model, None, images.root)
    unknown = [name for name in _DECISIVE if name not in about]
    others = [name for name in _DECISIVE if about.get(name, now[name]) != now[name]]
    if {*embeddings.names, *(name for name, _ in embeddings.unreadable)} != {*images.names}:
        others.append("images")
    if others:
        raise UserValueError(
            "embeddings must be of the same weights and images, but they "
            f"differ in {', '.join(others)}; run `embed` again."
        )

    if unknown:
        options.log(
            f"the embeddings do not say {', '.join(unknown)}, which cannot be compared with the "
            "weights. Run `embed` again to have them checked."
        )
    embeddings.require_unchanged(images, options.log)
    return embeddings
