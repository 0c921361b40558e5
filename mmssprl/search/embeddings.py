"""Features of images with their names, and their files."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..console.paths import check_embeddings
from ..console.quiet import say
from ..console.wording import on_one_line
from ..datasets.image_identity import IDENTITY, find_changed, stamps_of
from ..errors import UserValueError, refuse_damaged
from ..features.backbone import FeatureBackbone
from ..features.crops import Crops
from ..features.extract import FeatureOptions, Images, ImageSource, Weights, extract, joined
from ..system.outputs import prepare_output, whole_file
from ..version import __version__

SUFFIX = ".npz"
_UNKNOWN = np.empty((0, IDENTITY), np.int64)


@dataclass(frozen=True)
class Embeddings:
    """Features of N images, one row each.

    Attributes:
        names: Image of each row, relative to the folder.
        boxes: float32 (N, 4), left, top, right, bottom of the centre crop in the image's pixels.
        features: float32 (N, C), of any norm.
        about: Weights with their digest, images, and sizes that the features were computed with.
        unreadable: Names and reasons of M images that were left out.
        identities: int64 (N + M, 5), size, times and digest of each image, unreadable ones last,
            see ``identity_of``; (0, 5) if unknown.
    """

    names: list[str]
    boxes: np.ndarray
    features: np.ndarray
    about: dict[str, Any] = field(default_factory=dict)
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    identities: np.ndarray = field(default_factory=lambda: _UNKNOWN)

    def __len__(self) -> int:
        return len(self.names)

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write an .npz file.

        Raises:
            FileExistsError: The file exists and ``overwrite`` is False.
            ValueError: The suffix is not .npz.
        """
        prepare_output(path, SUFFIX, overwrite=overwrite)
        with whole_file(path, "wb") as file:
            np.savez(
                file,
                names=np.array(self.names, dtype=np.str_),
                boxes=self.boxes,
                features=self.features,
                about=np.array(json.dumps(self.about)),
                unreadable=np.array(self.unreadable, dtype=np.str_).reshape(-1, 2),
                identities=self.identities,
            )

    def require_finite(self) -> None:
        """Raise ValueError if a feature is NaN or infinite."""
        odd = np.flatnonzero(~np.isfinite(self.features).all(axis=1))
        if odd.size:
            raise UserValueError(
                f"features must be finite, but {odd.size:,} of {len(self):,} rows are not (first "
                f"{on_one_line(self.names[odd[0]])}); run `embed` again."
            )

    def require_unchanged(self, images: Images, log: Callable[[str], object] = say) -> None:
        """Raise ValueError if images have other bytes than when they were embedded.

        Images that are gone are not missed. ``log`` is called if the identities are unknown.
        """
        if not len(self.identities):
            log(
                "the embeddings do not note the content of their images, as in older versions: "
                "only names are compared. Run `embed` again to have the images checked."
            )
            return

        index_of = {name: index for index, name in enumerate(images.names)}
        names = [*self.names, *(name for name, _ in self.unreadable)]
        rows = [row for row, name in enumerate(names) if name in index_of]
        places = [index_of[names[row]] for row in rows]
        stamps = stamps_of(lambda row: images.stamp(places[row]), len(rows))
        kept = self.identities[rows]  # a copy, which gets the present times
        changed = find_changed(kept, stamps, lambda row: images.read_bytes(places[row]))
        if changed:
            [first] = images.paths([names[rows[changed[0]]]])
            raise UserValueError(
                f"embeddings must be of these images, but {len(changed):,} of {len(names):,} have "
                f"changed since `embed`, first {on_one_line(first)}; run `embed` again."
            )


def read_embeddings(path: str | Path) -> Embeddings:
    """Read an .npz file that ``embed`` wrote.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The file is damaged or of another kind.
    """
    path = check_embeddings(path)
    remedy = "run `embed` again"
    with refuse_damaged(path, "a file that `embed` wrote", remedy), np.load(path) as file:
        # Files of version 0.2 may also have rows of patches.
        whole = file["scales"] == 0 if "scales" in file else slice(None)
        return Embeddings(
            file["names"][whole].tolist(),
            boxes=file["boxes"][whole],
            features=file["features"][whole],
            about=dict(json.loads(str(file.get("about", "{}")))),
            unreadable=[(name, reason) for name, reason in file["unreadable"].tolist()],
            identities=file.get("identities", _UNKNOWN),
        )


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
        image_px: Side of the centre crop; None takes the usual one of ``load_backbone``.
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
    model = options.load(weights)
    return embed_images(model, Images(images, like=model), options, weights)


def embed_images(
    model: FeatureBackbone, images: Images, options: FeatureOptions, weights: Any = None
) -> Embeddings:
    """As ``embed``, with a loaded model; ``weights`` are named in ``about``."""
    if images.left_out:
        options.log(images.left_out)
    crops = Crops(model.image_px)
    batches = extract(model, images.load, images.names, crops, options, identify=images.identity)
    found = joined(batches)
    unreadable = sorted({*range(len(images))} - {*found.indices})
    return Embeddings(
        [images.names[i] for i in found.indices],
        boxes=np.stack([crops.boxes(*size)[0] for size in found.sizes]),
        features=found.features[:, 0].numpy(),
        about=made_with(model, weights, images.root),
        unreadable=found.unreadable,
        identities=np.stack(found.identities)[[*found.indices, *unreadable]],
    )


def made_with(model: FeatureBackbone, weights: Any, root: Path) -> dict[str, Any]:
    """Return the weights with their digest, the images' folder, and the preprocessing."""
    state = hashlib.sha256(repr(model.backbone).encode())
    for name, value in sorted(model.backbone.state_dict().items()):
        state.update(name.encode())
        state.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return {
        "mmssprl": __version__,
        "weights": str(weights) if isinstance(weights, str | Path) else "",
        "weights_sha256": state.hexdigest(),
        "images": str(root.resolve()),
        "image_px": model.image_px,
        "mean": list(model.mean),
        "std": list(model.std),
        **({"pixels": model.pixels._asdict()} if model.pixels else {}),
    }
