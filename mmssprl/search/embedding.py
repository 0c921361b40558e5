"""Compute the features of images."""

from pathlib import Path

import numpy as np
import torch

from ..features.backbone import Crops
from ..features.extract import (
    FeatureOptions,
    Images,
    ImageSource,
    Weights,
    extract,
    require_readable,
)
from .embeddings import Embeddings, made_with


def embed(
    weights: Weights,
    images: ImageSource,
    *,
    config: str | Path | None = None,
    image_px: int | None = None,
    batch_size: int = 64,
    device: str | torch.device = "auto",
    progress: bool = True,
) -> Embeddings:
    """Return the features of images, as ``probe`` scores them.

    Args:
        weights: As for ``load_backbone``, or its result.
        images: Folder of images or of tar files, searched recursively; a tar file; an image; a list
            of paths. Weights of ``pretrain(channels=C)`` take images of C channels. For images in
            memory use ``load_backbone`` and ``image_transform``.
        config: Config with ``model.backbone``; None takes ``NAME.json`` next to the weights.
        image_px: Side of the centre crop; None takes the config's image views, or 224.
        batch_size: Images per batch; features do not depend on it.
        device: 'auto' (a GPU if there is one), 'cpu', 'cuda', 'cuda:1', ...
        progress: Whether to draw a progress bar at a terminal.

    Returns:
        One row per image, named by its path below the folder, or as listed; ``features`` is float32
        (N, C). Unreadable images have no row and are listed in ``unreadable``.

    Raises:
        TypeError: Images of another kind.
        ValueError: Arguments, weights or config do not fit, or no image is readable.
        FileNotFoundError: A file or folder does not exist.
    """
    options = FeatureOptions(config, image_px, batch_size, device, progress=progress)
    return embed_images(weights, images, options)


def embed_images(
    weights: Weights, images: ImageSource | Images, options: FeatureOptions
) -> Embeddings:
    """As ``embed``; ``images`` may be ``Images``."""
    model = options.load(weights)
    if not isinstance(images, Images):
        images = Images(images, like=model)
    crops, names = Crops(model.image_px), images.names
    batches = list(extract(model, images.load, range(len(images)), crops, options))
    unreadable = [(names[i], why) for batch in batches for i, why in batch.unreadable]
    found = [batch for batch in batches if batch.indices]
    require_readable(len(found), unreadable)
    return Embeddings(
        [names[i] for batch in found for i in batch.indices],
        boxes=np.concatenate([batch.boxes[:, 0] for batch in found]),
        features=torch.cat([batch.features[:, 0] for batch in found]).numpy(),
        about=made_with(model, weights, images.root),
        unreadable=unreadable,
    )
