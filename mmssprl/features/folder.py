"""Embed all images of a folder: in memory, or into a file that a stopped run goes on with."""

import hashlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from ..console.wording import on_one_line
from ..datasets import UnlabeledImages
from ..errors import UserValueError
from ..system.one_run import hold_output
from ..system.outputs import prepare_output, write_whole
from ..version import __version__
from .crops import Crops
from .embeddings import Embeddings
from .extract import extract
from .formats import check_format, write_embeddings
from .frozen_backbone import FrozenBackbone, load_frozen_backbone
from .images import Images
from .labelled_images import check_loading
from .linear_probe import choose_device
from .parts import Parts

KEPT_EVERY_SECONDS = 20.0
"""A part is written after so long: what a killed process loses at most, beside one batch."""


def embed(
    weights: str | Path | FrozenBackbone,
    images: str | Path | UnlabeledImages,
    *,
    config: str | Path | None = None,
    patches: bool = False,
    image_px: int | None = None,
    batch_size: int = 64,
    num_workers: int = 0,
    device: str = "auto",
    seed: int = 0,
    progress: bool = True,
) -> Embeddings:
    """Return the features of all images of a folder, those of ``probe`` for the same images.

    All are kept in memory; ``python -m mmssprl embed`` writes a file, and goes on when stopped.

    Args:
        weights: As for ``load_backbone``, or what it returned.
        images: Folder of images or of tar files, searched recursively; a tar file; an image; or a
            data set of images.
        config: Config with ``model.backbone``; None takes the one beside the weights.
        patches: Embed a patch of each of the pyramid's cells beside the whole images.
        image_px: Side of the centre crop; None takes the config's image views, or 224.
        batch_size: Images per batch; the features do not depend on it.
        num_workers: Processes that read images; 0 reads in this one.
        device: 'auto' (a GPU if there is one), 'cpu', 'cuda', ...
        seed: Of random weights.
        progress: Whether to draw a progress bar, if there is a terminal.

    Returns:
        Rows in the order of the images' names; ``features`` is float32 (N, C). Unreadable images
        have no rows and are listed under ``unreadable``.

    Raises:
        ValueError: Arguments, weights or config that do not fit, or no readable image.
        FileNotFoundError: A file or folder that does not exist.
    """
    check_loading(batch_size, num_workers)
    where = choose_device(device)
    found = Images(images)
    model = _load(weights, config, image_px, seed)
    crops = choose_crops(model, patches=patches)
    about = describe(model, weights, found, crops)
    batches = extract(
        model,
        found,
        crops,
        batch_size=batch_size,
        num_workers=num_workers,
        device=where,
        progress=progress,
    )
    rows = Embeddings.join([batch for _, batch in batches])
    _require_rows(len(rows), rows.unreadable)
    rows.about.update(about)
    return rows


def embed_to_file(
    weights: str | Path,
    images: str | Path,
    out: str | Path,
    *,
    config: str | Path | None = None,
    patches: bool = False,
    image_px: int | None = None,
    batch_size: int = 64,
    num_workers: int = 0,
    device: str = "auto",
    seed: int = 0,
    force: bool = False,
    log: Callable[[str], object] = lambda line: None,
) -> None:
    """Write the features of all images of a folder into one file; arguments as for ``embed``.

    Until it is whole, its parts lie in ``OUT.parts``; the same call goes on with them.

    Args:
        weights: As for ``load_backbone``.
        images: Folder of images or of tar files, searched recursively; a tar file; or an image.
        out: File in one of ``FORMATS``.
        config, patches, image_px, batch_size, num_workers, device, seed: As for ``embed``.
        force: Replace ``out``, and parts that were made of something else.
        log: Receives lines about the progress.

    Raises:
        FileExistsError: ``out`` or its list of unreadable images is there, or parts of something
            else, and ``force`` is not given.
        ValueError: As ``embed``, a format that cannot be written, or parts that do not add up.
        FileNotFoundError: As ``embed``.
        RuntimeError: Another process writes ``out``.
    """
    out, bad_list = Path(out), Path(f"{out}.unreadable.txt")
    check_format(out)
    check_loading(batch_size, num_workers)
    with hold_output(out, force=force):
        prepare_output(bad_list, force=force)
        where = choose_device(device)
        found = Images(images)
        model = _load(weights, config, image_px, seed)
        crops = choose_crops(model, patches=patches)
        about = describe(model, weights, found, crops)
        parts = Parts(out, about, force=force)
        start = parts.num_done
        if start:
            log(f"going on: {start:,} of {len(found):,} images are done, see {parts.folder}")
        rows = f"{len(crops.scales)} rows each" if patches else "a row each"
        log(f"{len(found):,} images, {rows}, at {crops.image_px} px on {where}")
        batches = extract(
            model,
            found,
            crops,
            start=start,
            batch_size=batch_size,
            num_workers=num_workers,
            device=where,
        )
        _Keeper(parts, start, len(found), log).keep_all(batches)
        num_rows, unreadable = parts.count(len(crops.scales))
        _require_rows(num_rows, unreadable)
        write_embeddings(out, about, (part for part in parts if len(part)))
        bad_list.unlink(missing_ok=True)  # of the file that was replaced
        if unreadable:
            lines = [f"{on_one_line(name)}\t{on_one_line(why)}\n" for name, why in unreadable]
            write_whole(bad_list, "".join(lines))
            log(f"{len(unreadable):,} images cannot be read and are left out: {bad_list}")
        parts.remove()
        log(f"embeddings: {out} ({num_rows:,} rows, {out.stat().st_size / 1e6:.1f} MB)")


class _Keeper:
    """Writes batches into parts, every few seconds and when stopped, and tells the pace."""

    def __init__(
        self, parts: Parts, start: int, num_images: int, log: Callable[[str], object]
    ) -> None:
        self.parts, self.kept, self.num_images, self.log = parts, start, num_images, log
        self.first, self.begun = start, time.monotonic()
        self.waiting: list[Embeddings] = []

    def keep_all(self, batches: Any) -> None:
        num_done, last = self.kept, time.monotonic()
        try:
            for num_done, batch in batches:
                self.waiting.append(batch)
                if time.monotonic() - last >= KEPT_EVERY_SECONDS:
                    self._keep(num_done)
                    last = time.monotonic()
        finally:
            self._keep(num_done)

    def _keep(self, num_done: int) -> None:
        if num_done == self.kept:
            return
        self.parts.add(self.kept, num_done, Embeddings.join(self.waiting))
        self.waiting, self.kept = [], num_done
        pace = (num_done - self.first) / (time.monotonic() - self.begun)
        # A terminal has a bar.
        if num_done < self.num_images and not sys.stderr.isatty():
            left = (self.num_images - num_done) / pace
            self.log(
                f"{num_done:,} of {self.num_images:,} images, {pace:.0f} a second, "
                f"about {left / 60:.1f} min left"
            )


def choose_crops(model: FrozenBackbone, *, patches: bool) -> Crops:
    """Return what is cut from each image for a model."""
    if patches:
        return Crops.of_pyramid(model.image_px, model.layout)
    return Crops(model.image_px)


def describe(model: FrozenBackbone, weights: Any, images: Images, crops: Crops) -> dict[str, Any]:
    """Return what decides the embeddings, as plain values: two that are equal give the same."""
    return {
        "mmssprl": __version__,
        "weights": str(weights) if isinstance(weights, str | Path) else "",
        "weights_sha256": digest_of_weights(model),
        "images": str(images.root.resolve()),
        "num_images": len(images),
        "images_sha256": _digest_of_images(images),
        "image_px": crops.image_px,
        "levels": [[level.grid, level.resize_px, level.patch_px] for level in crops.levels],
        "mean": list(model.mean),
        "std": list(model.std),
    }


def digest_of_weights(model: FrozenBackbone) -> str:
    """Return the SHA-256 of a backbone's architecture and of all its tensors."""
    digest = hashlib.sha256(repr(model.backbone).encode())
    for name, value in sorted(model.backbone.state_dict().items()):
        digest.update(name.encode())
        # Bytes of any type of number, those that numpy lacks too.
        digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def _digest_of_images(images: Images) -> str:
    digest = hashlib.sha256()
    for name in images.names:
        digest.update(name.encode("utf-8", "surrogateescape") + b"\0")
    digest.update(repr(images.sizes()).encode())
    return digest.hexdigest()


def _load(
    weights: str | Path | FrozenBackbone,
    config: str | Path | None,
    image_px: int | None,
    seed: int,
) -> FrozenBackbone:
    if not isinstance(weights, FrozenBackbone):
        return load_frozen_backbone(weights, config, image_px=image_px, seed=seed)
    if config is not None or image_px is not None:
        raise UserValueError(
            "config and image_px belong to the weights, but a loaded backbone was given; give them "
            "to load_backbone."
        )
    return weights


def _require_rows(num_rows: int, unreadable: list[tuple[str, str]]) -> None:
    if not num_rows:
        name, reason = unreadable[0]
        raise UserValueError(
            f"at least one image must be readable, but none of {len(unreadable)} is (first {name}: "
            f"{reason}); replace or remove them."
        )
