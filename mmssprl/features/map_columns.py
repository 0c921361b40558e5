"""What a table of features has beside them, for a viewer to draw a map of: place, thumbnail, class.

Legend: N rows, C features.
"""

import io
from base64 import b64encode
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE
from sklearn.preprocessing import normalize
from torch import Tensor
from torch.utils.data import DataLoader

from ..config.reading import read_config_file
from ..console.progress import watch
from ..datasets.channel_images import as_picture
from ..datasets.labels import find_labels
from ..errors import UserValueError, called
from ..models import SSPRL
from ..weights import config_beside
from ..weights.checkpoint_file import read_state
from .embeddings import Embeddings
from .extract import FeatureOptions, Images, Weights
from .prototypes import has_prototypes, load_prototypes, prototype_cosines

_LEAST_PLACED, MOST_PLACED = 5, 20_000  # rows that t-SNE places
_COMPONENTS = 50  # principal components that it sees
_THUMBNAIL_PX = 96


def map_columns(
    rows: Embeddings,
    images: Images,
    classes: dict[str, str],
    weights: Weights,
    options: FeatureOptions,
) -> dict[str, Any]:
    """Return what stands beside the features that weights made of images, by name: (N,) each.

    ``classes`` are those of images by their names.
    """
    places = project(rows.features)
    columns: dict[str, Any] = {"projection_x": places[:, 0], "projection_y": places[:, 1]}
    columns["image"] = _thumbnails(rows, images, options)
    if classes:
        columns["label"] = [classes.get(name) for name in rows.names]
    if model := _model_of(weights, options.config):
        columns["prototype"] = _prototypes(model, rows)
    return columns


def classes_of(images: Images, labels: str | Path) -> dict[str, str]:
    """Return the classes of each image that has some in a folder of labels, by its name."""
    with called("labels (--labels)", field="the data"):
        found = find_labels(labels, "classify", measured=False)
    shown = {
        Path(each.path).resolve(): " + ".join(sorted(found.classes[i] for i in each.labels))
        for each in (*found.train, *found.val)
    }
    paths = map(Path.resolve, map(Path, images.paths(images.names)))
    known = {
        name: shown[path] for name, path in zip(images.names, paths, strict=True) if path in shown
    }
    if not known:
        raise UserValueError(
            f"labels (--labels) must be those of the images, but none of {len(images):,} has one "
            f"in {labels}; give the labelled folder that they are in, or leave it out."
        )
    return known


def project(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return places (N, 2) of features (N, C), near each other where their cosines are high.

    By t-SNE; of very few, equal or more than ``MOST_PLACED`` rows by two principal components.
    """
    units = normalize(features)
    found = PCA(min(_COMPONENTS, *units.shape), random_state=0).fit_transform(units)
    if not _LEAST_PLACED <= len(found) <= MOST_PLACED or found.std() < 1e-6:
        return np.pad(found, [(0, 0), (0, 2)])[:, :2]
    perplexity = min(30.0, (len(found) - 1) / 3)
    return TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(found)


def thumbnail_uri(image: Tensor, longer_px: int) -> str:
    """Return a small JPEG of an image (C, H, W) as a data URI."""
    small = Image.fromarray(as_picture(image).permute(1, 2, 0).numpy())  # (H, W, 3)
    small.thumbnail((longer_px, longer_px))
    buffer = io.BytesIO()
    small.save(buffer, "jpeg", quality=80)
    return data_uri(buffer, "jpeg")


def data_uri(buffer: io.BytesIO, kind: str) -> str:
    """Return a picture, "jpeg", "png" or "svg+xml", as text that pages and tables hold."""
    return f"data:image/{kind};base64,{b64encode(buffer.getvalue()).decode()}"


def _model_of(weights: Weights, config: str | Path | None) -> SSPRL | None:
    """Return the model of a training checkpoint with prototypes; None of other weights."""
    if not isinstance(weights, str | Path) or not Path(weights).is_file():
        return None
    if not any(name.startswith("head.prototypes.") for name in read_state(weights)):
        return None
    cfg = config_beside(str(weights)) if config is None else read_config_file(config)
    return load_prototypes(weights, cfg) if has_prototypes(cfg) else None


def _prototypes(model: SSPRL, rows: Embeddings) -> list[str | None]:
    """Return the prototype that each row chooses: 1.2 is number 2 of level 1."""
    found: list[str | None] = [None] * len(rows)
    for scale in range(len(model.head.prototypes)):
        own = np.flatnonzero(rows.scales == scale)
        chosen = prototype_cosines(model, rows.features[own], scale).argmax(dim=1)
        for row, prototype in zip(own, chosen.tolist(), strict=True):
            found[row] = f"{scale}.{prototype}"
    return found


def _thumbnails(rows: Embeddings, images: Images, options: FeatureOptions) -> list[str]:
    place = {name: index for index, name in enumerate(images.names)}
    # Outwards, so that a patch of a tiny image has a pixel.
    corners = np.floor(rows.boxes[:, :2]).clip(min=0), np.ceil(rows.boxes[:, 2:])
    named = zip(rows.names, np.hstack(corners).astype(int).tolist(), strict=True)
    crops = [(place[name], [*group]) for name, group in groupby(named, lambda row: row[0])]
    loader: DataLoader = DataLoader(
        crops,  # type: ignore[arg-type]
        batch_size=None,
        num_workers=options.num_workers,
        collate_fn=partial(_cut, images),
    )
    return [uri for each in watch(loader, "thumbnails", shown=options.progress) for uri in each]


def _cut(images: Images, crops: tuple[int, list[tuple[str, list[int]]]]) -> list[str]:
    """Return small copies of what was seen of an image."""
    image = images.load(crops[0])  # (3, H, W)
    return [
        thumbnail_uri(image[:, top:bottom, left:right], _THUMBNAIL_PX)
        for _, (left, top, right, bottom) in crops[1]
    ]
