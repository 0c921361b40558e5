"""Embed images."""

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
    """Return the features of images, those of ``probe`` for the same images.

    Args:
        weights: As for ``load_backbone``, or what it returned.
        images: Folder of images or of tar files, searched recursively; a tar file; an image; a list
            of paths. Weights of ``pretrain(channels=C)`` take what they were trained on. For images
            in memory there are ``load_backbone`` and ``image_transform``.
        config: Config with ``model.backbone``; None takes ``NAME.json`` next to the weights.
        image_px: Side of the centre crop; None takes the config's image views, or 224.
        batch_size: Images per batch; the features do not depend on it.
        device: 'auto' (a GPU if there is one), 'cpu', 'cuda', 'cuda:1', ...
        progress: Whether to draw a progress bar, if there is a terminal.

    Returns:
        Rows in the order of the images, which are called by their paths below the folder, or by
        their paths as listed; ``features`` is float32 (N, C). Unreadable images have no rows and
        are listed under ``unreadable``.

    Raises:
        TypeError: Images of another kind.
        ValueError: Arguments, weights or config that do not fit, or no readable image.
        FileNotFoundError: A file or folder that does not exist.
    """
    options = FeatureOptions(config, image_px, batch_size, device, progress=progress)
    return embed_images(weights, images, options)


def embed_images(
    weights: Weights, images: ImageSource | Images, options: FeatureOptions
) -> Embeddings:
    """As ``embed``, also of images that have been found."""
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
