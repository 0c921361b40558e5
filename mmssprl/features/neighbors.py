"""The nearest photographs of some photographs, by the cosine of their features."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..errors import UserValueError, called
from .about import describe, find_changes
from .crops import Crops
from .embeddings import Embeddings
from .folder import embed
from .formats import read_embeddings
from .frozen_backbone import load_frozen_backbone
from .images import Images
from .nearest_neighbors import nearest


@dataclass(frozen=True)
class Neighbor:
    """One image near another one.

    Attributes:
        query: Path of the image that was asked for.
        rank: 1 for the nearest.
        path: The image that was found.
        similarity: Cosine of both features, in [-1, 1].
    """

    query: str
    rank: int
    path: str
    similarity: float


def find_neighbors(
    weights: str | Path,
    query: str | Path,
    images: str | Path,
    *,
    embeddings: str | Path | None = None,
    num: int = 8,
    above: float | None = None,
    config: str | Path | None = None,
    image_px: int | None = None,
    seed: int = 0,
    log: Callable[[str], object] = lambda line: None,
    **options: Any,
) -> list[list[Neighbor]]:
    """Find the images of a folder that are nearest to some images, which may be among them.

    Args:
        weights: As for ``load_backbone``.
        query: An image, or a folder of some; an image is never its own neighbour.
        images: Folder of images or of tar files, or a tar file.
        embeddings: Features of ``images`` that ``embed`` wrote; None computes them.
        num: Neighbours of each query.
        above: Least cosine of a neighbour. Pairs are then listed once, and not the other way round.
        config, image_px, seed: As for ``embed``.
        log: Receives lines about the progress.
        options: ``batch_size``, ``num_workers``, ``device`` of ``embed``.

    Returns:
        The neighbours of each query, the nearest first.

    Raises:
        ValueError: As ``embed``; numbers out of range; embeddings of other weights or images.
        FileNotFoundError: A file or folder that does not exist.
    """
    if num < 1:
        raise UserValueError(f"--num must be at least 1 neighbour, but got {num}.")
    if above is not None and not -1 <= above <= 1:
        raise UserValueError(f"--above must be a cosine in [-1, 1], but got {above}.")
    queries, among = Images(query, "QUERY"), Images(images)
    model = load_frozen_backbone(weights, config, image_px=image_px, seed=seed)
    if embeddings is None:
        log(f"features of {len(among):,} images; `embed` would keep them for --embeddings")
        known = embed(model, images, **options)
    else:
        with called("--embeddings", field="the embeddings"):
            known = read_embeddings(embeddings).of_scale(0)
        now = describe(model, weights, among, Crops(model.image_px))
        changes = find_changes({**known.about, "levels": []}, now)
        if changes:
            raise UserValueError(
                f"--embeddings must be of WEIGHTS and of the images in DIR, but {embeddings} was "
                f"made of others: {' and '.join(changes)} changed; run `embed` again."
            )
    asked = known if _is_same(queries, among) else embed(model, query, **options)
    paths, query_paths = _paths(known, among), _paths(asked, queries)
    places = {path: i for i, path in enumerate(paths)}
    own = np.array([places.get(path, -1) for path in query_paths])
    indices, cosines = nearest(
        torch.from_numpy(asked.features),
        torch.from_numpy(known.features),
        num,
        excluded=own if (own >= 0).any() else None,
    )
    cosines = cosines.clamp(-1, 1)
    listed: set[tuple[str, str]] = set()
    rows = []
    for path, found, values in zip(query_paths, indices.tolist(), cosines.tolist(), strict=True):
        row: list[Neighbor] = []
        for index, value in zip(found, values, strict=True):
            other = paths[index]
            if above is not None and (value < above or (other, path) in listed):
                continue
            listed.add((path, other))
            row.append(Neighbor(path, len(row) + 1, other, value))
        rows.append(row)
    if above is not None and not listed and cosines.numel():
        log(f"no cosine is as great as {above}: the highest is {cosines.max():.6f}")
    return rows


def _is_same(queries: Images, among: Images) -> bool:
    return queries.root.resolve() == among.root.resolve() and queries.names == among.names


def _paths(embeddings: Embeddings, images: Images) -> list[str]:
    root = images.root.resolve()
    return [str(root / name) for name in embeddings.names]
