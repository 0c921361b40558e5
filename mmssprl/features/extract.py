"""Extract features of images in batches; each image is decoded once for all its crops.

Legend: B readable images of a batch, R crops of each, C features, M crops of one scale.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from multiprocessing import current_process
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from mmengine.config import Config
from torch import Tensor
from torch.utils.data import DataLoader

from ..console.paths import check_images, check_path
from ..console.progress import watch
from ..console.quiet import say
from ..datasets import UnlabeledImages
from ..datasets.channel_images import read_as
from ..datasets.image_identity import identity_of, stamp_of
from ..datasets.image_index import unread_line
from ..datasets.image_reading import ImageReadError, read_file
from ..datasets.loader_processes import explain_timeout, prepare_loaders
from ..errors import UserTypeError, UserValueError, called
from ..pixels import Pixels
from ..system.environment import choose_device, cores_of_run, freed_memory_kept
from ..system.stopping import signals
from .backbone import FeatureBackbone, borrowed, explain_size, load_backbone
from .crops import Crops

ImageSource = str | Path | Iterable[str | Path] | UnlabeledImages
Weights = str | Path | FeatureBackbone  # as for ``load_backbone``, or its result
_ARCHIVES = (".tar", ".gz", ".tgz", ".bz2", ".xz", ".zip")
_LEAST_FOR_WORKERS = 256
"""Minimum number of images to start reading processes."""
_MOST_WORKERS = 8
"""Maximum number of reading processes."""


class Images:
    """Images in the order of their names.

    Args:
        source: As the ``images`` of ``embed``, or a data set.
        argument: Name of ``source`` in error messages.
        like: Backbone or config that says the kind of pixels; a data set has its own.

    Attributes:
        root: The folder that the names are relative to.
    """

    def __init__(self, source: ImageSource, argument: str = "images", like: Any = None) -> None:
        self.root = Path()
        self._pixels = Pixels.build(like)
        self._dataset: UnlabeledImages | None = None
        self.left_out = ""
        """A line about images in formats that are not read, or ""."""
        if isinstance(source, str | Path):
            path = check_images(source, argument)
            if path.is_file() and not path.name.lower().endswith(_ARCHIVES):
                self.root = path.parent
                self.names = [path.name]
                return

            with called(argument):
                source = UnlabeledImages(str(path), pixels=self._pixels)
        if isinstance(source, UnlabeledImages):
            self.root = Path(source.data_prefix["img_path"])
            self._dataset = source
            self.names = list(source.names)
            self.left_out = unread_line(source.skipped)
            return

        self.names = []
        # Stop at the first that is no path: a loader may be slow or endless.
        for i, path in enumerate(source if isinstance(source, Iterable) else [source]):
            if not isinstance(path, str | Path):
                raise UserTypeError(
                    f"{argument} must be paths of images; for images in memory use load_backbone "
                    "and image_transform."
                )
            self.names.append(str(check_path(path, f"{argument}[{i}]", file="an image file")))
        if not self.names:
            raise UserValueError(f"{argument} must have at least one image, but got an empty list.")

    def __len__(self) -> int:
        return len(self.names)

    def paths(self, names: Iterable[str]) -> list[str]:
        """Return absolute paths."""
        root = self.root.resolve()
        return [str(root / name) for name in names]

    def load(self, index: int) -> Tensor:
        """Decode an image to uint8 RGB (3, H, W), or as ``read_as``; may raise ImageReadError."""
        if self._dataset is not None:
            return self._dataset.load_image(index)
        return read_as(str(self.root / self.names[index]), self._pixels)

    def stamp(self, index: int) -> tuple[int, int, int]:
        """Return size and times of an image, see ``stamp_of``."""
        if self._dataset is not None:
            return self._dataset.stamp(index)
        return stamp_of(self.root / self.names[index])

    def read_bytes(self, index: int) -> np.ndarray:
        """Return the encoded bytes (size,) uint8 of an image; may raise ImageReadError."""
        if self._dataset is not None:
            return self._dataset.read_bytes(index)
        return read_file(self.root / self.names[index])

    def identity(self, index: int) -> np.ndarray:
        """Return the identity int64 (5,) of an image, see ``identity_of``."""
        stamp = self.stamp(index)
        data = None
        with suppress(ImageReadError):
            data = self.read_bytes(index)
        return identity_of(stamp, data)


@dataclass(frozen=True)
class FeatureOptions:
    """Options of ``embed``, ``probe`` and ``neighbors``."""

    config: str | Path | Config | None = None
    image_px: int | None = None
    batch_size: int = 64
    device: str | torch.device = "auto"
    seed: int = 0
    progress: bool = True
    num_workers: int | None = None  # reading processes; None chooses by the number of images
    log: Callable[[str], object] = say  # called with a line about unreadable images

    def __post_init__(self) -> None:
        choose_device(self.device)

    def load(self, weights: Weights) -> FeatureBackbone:
        """Load a backbone, or return a loaded one."""
        if not isinstance(weights, FeatureBackbone):
            return load_backbone(weights, self.config, image_px=self.image_px, seed=self.seed)
        if self.config is not None or self.image_px is not None:
            raise UserValueError("config and image_px must be given to load_backbone.")
        return weights

    def tell(self, text: str) -> None:
        """Print a line if ``progress``."""
        if self.progress:
            say(text)


class Batch(NamedTuple):
    """The features of some images."""

    indices: list[int]  # B readable images
    features: Tensor  # float32 (B, R, C), or maps (B, R, C, h, w), on the CPU, all finite
    sizes: list[tuple[int, int]]  # height and width
    unreadable: list[tuple[str, str]]  # name and reason
    identities: list[np.ndarray]  # int64 (5,) of all images, unreadable too, if asked for


def joined(batches: Iterable[Batch]) -> Batch:
    """Join the batches of ``extract``."""
    found = [*batches]
    return Batch(
        [*chain.from_iterable(batch.indices for batch in found)],
        torch.cat([batch.features for batch in found if batch.indices]),
        [*chain.from_iterable(batch.sizes for batch in found)],
        [*chain.from_iterable(batch.unreadable for batch in found)],
        [*chain.from_iterable(batch.identities for batch in found)],
    )


def extract(
    model: FeatureBackbone,
    read: Callable[[int], Tensor],
    names: Sequence[str],
    crops: Crops,
    options: FeatureOptions,
    *,
    pooled: bool = True,
    identify: Callable[[int], np.ndarray] | None = None,
) -> Iterator[Batch]:
    """Yield the features of each batch, or the last feature maps if not ``pooled``.

    ``read`` returns an image, uint8 RGB (3, H, W) or as ``read_as``, or raises ``ImageReadError``.
    ``identify`` returns its identity, which is taken before. Both take the index of a name. The
    model is in eval mode meanwhile.

    Raises:
        ValueError: No image is readable, or features are not finite.
    """
    loader: DataLoader = DataLoader(
        range(len(names)),  # type: ignore[arg-type]
        options.batch_size,
        num_workers=_num_workers(options, len(names)),
        collate_fn=partial(_load, read, identify, crops),
    )
    prepare_loaders({"features": loader}, options.log)
    device = choose_device(options.device)
    # At most as many pixels at once as in a batch of whole images.
    most_pixels = options.batch_size * crops.image_px**2

    all_unreadable: list[tuple[str, str]] = []
    with (
        borrowed(model, device),
        freed_memory_kept(device.type),
        explain_timeout(lambda: "the features"),
    ):
        for loaded in watch(loader, "features", shown=options.progress):
            signals.progress()  # a probe in a training is no step that is stuck
            unreadable = [(names[index], why) for index, why in loaded.unreadable]
            all_unreadable += unreadable

            parts = [_run(model, flat, most_pixels, device, pooled) for flat in loaded.crops]
            shaped = [part.unflatten(0, (len(loaded.indices), -1)) for part in parts]
            features = torch.cat(shaped, dim=1) if shaped else torch.empty(0)  # (B, R, C, ...)
            if not features.isfinite().all():
                raise UserValueError(
                    "features must be finite, but the network gives NaN or infinity; it has "
                    "diverged. Use weights of an earlier epoch, or train with a lower lr."
                )
            yield Batch(loaded.indices, features, loaded.sizes, unreadable, loaded.identities)

    if len(all_unreadable) == len(names):
        name, why = all_unreadable[0]
        raise UserValueError(
            f"at least one image must be readable, but none of {len(names)} is (first {name}: "
            f"{why}); replace the files."
        )


def _num_workers(options: FeatureOptions, num_images: int) -> int:
    """Return the number of reading processes; few images are read before these have started."""
    if options.num_workers is not None:
        return options.num_workers
    pays = num_images >= _LEAST_FOR_WORKERS and not current_process().daemon
    return min(_MOST_WORKERS, cores_of_run() // 2) if pays else 0


class _Loaded(NamedTuple):
    """The images of a batch, as a reading process sends them."""

    indices: list[int]  # B readable images
    crops: list[Tensor]  # for each scale uint8 (B M, 3, px, px)
    sizes: list[tuple[int, int]]  # height and width
    unreadable: list[tuple[int, str]]  # index and reason
    identities: list[np.ndarray]  # as in ``Batch``


def _load(
    read: Callable[[int], Tensor],
    identify: Callable[[int], np.ndarray] | None,
    crops: Crops,
    indices: list[int],
) -> _Loaded:
    """Read and crop the images of a batch."""
    identities = [*map(identify, indices)] if identify else []
    loaded = _Loaded([], [], [], [], identities)
    cut = []
    for index in indices:
        try:
            image = read(index)
        except ImageReadError as error:
            loaded.unreadable.append((index, error.reason))
            continue
        loaded.indices.append(index)
        loaded.sizes.append((image.shape[1], image.shape[2]))
        cut.append(crops.cut(image))
    return loaded._replace(crops=[torch.cat(scale) for scale in zip(*cut, strict=True)])


@torch.inference_mode()
def _run(
    model: FeatureBackbone, crops: Tensor, most_pixels: int, device: torch.device, pooled: bool
) -> Tensor:
    """Map crops uint8 (B M, 3, px, px) to features (B M, C) or maps (B M, C, h, w) on the CPU."""
    forward = model if pooled else model.feature_map
    found = []
    for part in crops.split(max(1, most_pixels // crops.shape[-1] ** 2)):
        inputs = model.normalise(part.to(device, non_blocking=True))
        with explain_size(model, inputs):
            found.append(forward(inputs).float().cpu())
    return torch.cat(found)
