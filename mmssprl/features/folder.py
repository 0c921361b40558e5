"""Embed all images of a folder: in memory, or into a file that a stopped run goes on with."""

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..console.wording import on_one_line
from ..datasets import UnlabeledImages
from ..errors import UserValueError
from ..system.one_run import hold_output
from ..system.outputs import prepare_output, write_whole
from .about import describe
from .crops import Crops
from .embeddings import Embeddings
from .extract import check_loading, choose_device, extract, require_readable
from .formats import check_format, write_embeddings
from .frozen_backbone import FrozenBackbone, load_frozen_backbone
from .images import Images
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
    work = _prepare(weights, images, config, patches, image_px, seed)
    parts = work.embed(
        batch_size=batch_size, num_workers=num_workers, device=where, progress=progress
    )
    rows = Embeddings.join([part for _, part in parts])
    require_readable(len(rows), rows.unreadable)
    rows.about.update(work.about)
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
        work = _prepare(weights, images, config, patches, image_px, seed)
        parts = Parts(out, work.about, force=force)
        num_images, start = len(work.images), parts.num_done
        if start:
            log(f"going on: {start:,} of {num_images:,} images are done, see {parts.folder}")
        rows_each = len(work.crops.scales)
        rows = f"{rows_each} rows each" if patches else "a row each"
        log(f"{num_images:,} images, {rows}, at {work.crops.image_px} px on {where}")
        rest = work.embed(start, batch_size=batch_size, num_workers=num_workers, device=where)
        _keep(parts, rest, start, num_images, log)
        num_rows, unreadable = parts.count(rows_each)
        require_readable(num_rows, unreadable)
        write_embeddings(out, work.about, parts)
        bad_list.unlink(missing_ok=True)  # of the file that was replaced
        if unreadable:
            lines = [f"{on_one_line(name)}\t{on_one_line(why)}\n" for name, why in unreadable]
            write_whole(bad_list, "".join(lines))
            log(f"{len(unreadable):,} images cannot be read and are left out: {bad_list}")
        parts.remove()
        log(f"embeddings: {out} ({num_rows:,} rows, {out.stat().st_size / 1e6:.1f} MB)")


class _Work(NamedTuple):
    """An embedding that is to be made."""

    model: FrozenBackbone
    images: Images
    crops: Crops
    about: dict[str, Any]

    def embed(self, start: int = 0, **loading: Any) -> Iterator[tuple[int, Embeddings]]:
        """Yield the rows of one batch after the other, each with the number of images so far."""
        names, crops, num = self.images.names, self.crops, len(self.crops.scales)
        indices = range(start, len(names))
        for batch in extract(self.model, self.images.load, indices, crops, **loading):
            rows = Embeddings(
                [names[index] for index in batch.indices for _ in range(num)],
                np.tile(crops.scales, len(batch.indices)),
                np.tile(crops.cells, len(batch.indices)),
                batch.boxes.reshape(-1, 4),
                batch.features.flatten(0, 1).numpy(),  # (B R, C)
                unreadable=[(names[index], why) for index, why in batch.unreadable],
            )
            yield batch.stop, rows


def _prepare(
    weights: str | Path | FrozenBackbone,
    images: str | Path | UnlabeledImages,
    config: str | Path | None,
    patches: bool,
    image_px: int | None,
    seed: int,
) -> _Work:
    found = Images(images)
    if not isinstance(weights, FrozenBackbone):
        model = load_frozen_backbone(weights, config, image_px=image_px, seed=seed)
    elif config is None and image_px is None:
        model = weights
    else:
        raise UserValueError(
            "config and image_px belong to the weights, but a loaded backbone was given; give them "
            "to load_backbone."
        )
    crops = Crops(model.image_px)
    if patches:
        crops = Crops.of_pyramid(model.image_px, model.layout)
    return _Work(model, found, crops, describe(model, weights, found, crops))


def _keep(
    parts: Parts,
    batches: Iterator[tuple[int, Embeddings]],
    start: int,
    num_images: int,
    log: Callable[[str], object],
) -> None:
    """Write batches into parts, every few seconds and when stopped, and tell the pace."""
    kept = done = start
    waiting: list[Embeddings] = []
    begun = last = time.monotonic()
    try:
        for done, batch in batches:
            waiting.append(batch)
            now = time.monotonic()
            if now - last < KEPT_EVERY_SECONDS or done == num_images:
                continue
            parts.add(kept, done, Embeddings.join(waiting))
            kept, last, waiting = done, now, []
            if not sys.stderr.isatty():  # which has a bar
                pace = (done - start) / (now - begun)
                left = (num_images - done) / pace / 60
                log(
                    f"{done:,} of {num_images:,} images, {pace:.0f} a second, "
                    f"about {left:.1f} min left"
                )
    finally:
        if waiting:
            parts.add(kept, done, Embeddings.join(waiting))
