"""Embed images: in memory, or into a file that a stopped run goes on with."""

import json
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..console.quiet import say
from ..console.wording import on_one_line
from ..errors import UserFileExistsError, UserValueError
from ..system.one_run import hold_output
from ..system.outputs import prepare_output, whole_file, write_whole
from .backbone import Crops, choose_device
from .embeddings import (
    Embeddings,
    check_format,
    describe,
    find_changes,
    read_embeddings,
    write_parquet,
)
from .extract import FeatureOptions, Images, ImageSource, Weights, extract, require_readable
from .map_columns import classes_of, map_columns

KEPT_EVERY_SECONDS = 20.0  # what a killed process loses at most, beside one batch
_PARTS = "*-*.npz"


def embed(
    weights: Weights,
    images: ImageSource,
    *,
    patches: bool = False,
    config: str | Path | None = None,
    image_px: int | None = None,
    batch_size: int = 64,
    num_workers: int = 0,
    device: str | torch.device = "auto",
    seed: int = 0,
    progress: bool = True,
) -> Embeddings:
    """Return the features of images, those of ``probe`` for the same images.

    ``python -m mmssprl embed`` writes a file, and goes on when stopped.

    Args:
        weights: As for ``load_backbone``, or what it returned.
        images: Folder of images or of tar files, searched recursively; a tar file; an image; a list
            of paths, of PIL images, or of uint8 RGB arrays (H, W, 3), also as one array
            (N, H, W, 3). Weights of ``pretrain(channels=C)`` take what they were trained on.
        patches: Embed a patch of each of the pyramid's cells beside the whole images.
        config: Config with ``model.backbone``; None takes the one beside the weights.
        image_px: Side of the centre crop; None takes the config's image views, or 224.
        batch_size: Images per batch; the features do not depend on it.
        num_workers: Processes that read images; 0 reads in this one.
        device: 'auto' (a GPU if there is one), 'cpu', 'cuda', 'cuda:1', ...
        seed: Seed of random weights.
        progress: Whether to draw a progress bar, if there is a terminal.

    Returns:
        Rows in the order of the images, which are called by their paths below the folder, by their
        paths as listed, or "0", "1", ... in memory; ``features`` is float32 (N, C). Unreadable
        images have no rows and are listed under ``unreadable``.

    Raises:
        TypeError: Images of another kind.
        ValueError: Arguments, weights or config that do not fit, or no readable image.
        FileNotFoundError: A file or folder that does not exist.
    """
    options = FeatureOptions(config, image_px, batch_size, num_workers, device, seed, progress)
    return embed_images(weights, images, options, patches=patches)


def embed_images(
    weights: Weights, images: ImageSource | Images, options: FeatureOptions, patches: bool = False
) -> Embeddings:
    """As ``embed``, also of images that have been found."""
    work = _Work(weights, images, patches, options)
    rows = Embeddings.join([part for _, part in work.run()], work.about)
    require_readable(len(rows), rows.unreadable)
    return rows


def embed_to_file(
    weights: Weights,
    images: ImageSource,
    out: str | Path,
    options: FeatureOptions,
    *,
    patches: bool = False,
    labels: str | Path | None = None,
    overwrite: bool = False,
) -> None:
    """Write what ``embed`` returns into one file, and print what is done.

    Until it is whole, its parts lie in ``OUT.parts``; the same call goes on with them. A .parquet
    gets the ``map_columns``, too, with classes of ``labels``, a folder of labelled images.
    """
    out, bad_list = Path(out), Path(f"{out}.unreadable.txt")
    check_format(out)
    if labels is not None and out.suffix != ".parquet":
        raise UserValueError(
            f"labels (--labels) must go with an output in .parquet, but it is {out}; rename it."
        )
    with hold_output(out, overwrite=overwrite):
        prepare_output(bad_list, overwrite=overwrite)
        work = _Work(weights, images, patches, options)
        classes = {} if labels is None else classes_of(work.images, labels)
        folder = _folder_of_parts(out, work.about, overwrite)
        num_images, start = len(work.images), _num_done(folder)
        if start:
            say(f"going on: {start:,} of {num_images:,} images are done, see {folder}")
        where, num_rows = choose_device(options.device), num_images * len(work.crops.scales)
        say(f"{num_images:,} images, {num_rows:,} rows, at {work.crops.image_px} px on {where}")
        _write_parts(folder, work, start)
        parts = [read_embeddings(path) for path in sorted(folder.glob(_PARTS))]
        rows = Embeddings.join(parts, work.about)
        require_readable(len(rows), rows.unreadable)
        if out.suffix == ".parquet":
            with whole_file(out, "wb") as file:
                write_parquet(file, rows, map_columns(rows, work.images, classes, weights, options))
        else:
            rows.save(out, overwrite=True)
        bad_list.unlink(missing_ok=True)  # of the file that was replaced
        if rows.unreadable:
            lines = ["\t".join(map(on_one_line, pair)) + "\n" for pair in rows.unreadable]
            write_whole(bad_list, "".join(lines))
            say(f"{len(lines):,} images cannot be read and are left out: {bad_list}")
        shutil.rmtree(folder)
        say(f"embeddings: {out} ({len(rows):,} rows, {out.stat().st_size / 1e6:.1f} MB)")


class _Work:
    """An embedding that is to be made."""

    def __init__(
        self, weights: Weights, images: ImageSource | Images, patches: bool, options: FeatureOptions
    ) -> None:
        self.options, self.model = options, options.load(weights)
        if not isinstance(images, Images):
            images = Images(images, pixels=self.model.pixels)
        self.images = images
        px, layout = self.model.image_px, self.model.layout
        self.crops = Crops.of_pyramid(px, layout) if patches else Crops(px)
        self.about = describe(self.model, weights, images, self.crops)

    def run(self, start: int = 0) -> Iterator[tuple[int, Embeddings]]:
        """Yield the rows of one batch after the other, each with the number of images so far."""
        names, crops, num = self.images.names, self.crops, len(self.crops.scales)
        indices = range(start, len(names))
        for batch in extract(self.model, self.images.load, indices, crops, self.options):
            scales, cells = (np.tile(x, len(batch.indices)) for x in (crops.scales, crops.cells))
            features, boxes = batch.features.flatten(0, 1).numpy(), batch.boxes.reshape(-1, 4)
            own = [names[index] for index in batch.indices for _ in range(num)]
            bad = [(names[index], why) for index, why in batch.unreadable]
            yield batch.stop, Embeddings(own, scales, cells, boxes, features, unreadable=bad)


def _folder_of_parts(out: Path, about: Mapping[str, Any], overwrite: bool) -> Path:
    """Return the folder of the parts of an output, or refuse one of something else."""
    folder = out.with_name(f"{out.name}.parts")
    described = folder / "about.json"
    is_ours = described.is_file()
    changes = find_changes(json.loads(described.read_text()), about) if is_ours else "everything"
    if folder.exists() and changes:
        if not (is_ours and overwrite):
            raise UserFileExistsError(
                f"{folder} must be the beginning of the same embedding, but {changes} changed "
                "since; delete it (overwrite deletes what `embed` began), or choose another output."
            )
        shutil.rmtree(folder)
    folder.mkdir(exist_ok=True)
    write_whole(described, json.dumps(about, indent=2) + "\n")
    return folder


def _num_done(folder: Path) -> int:
    """Return the number of images that are done, from the first, and delete parts after a gap."""
    done = 0
    for path in sorted(folder.glob(_PARTS)):
        start, stop = map(int, path.stem.split("-"))
        if start != done:
            path.unlink()
            continue
        done = stop
    return done


def _write_parts(folder: Path, work: _Work, start: int) -> None:
    """Write a part every few seconds and when stopped."""
    kept = done = start
    waiting: list[Embeddings] = []
    last = time.monotonic()

    def keep() -> None:
        Embeddings.join(waiting, work.about).save(folder / f"{kept:012}-{done:012}.npz")

    try:
        for done, batch in work.run(start):
            waiting.append(batch)
            if time.monotonic() - last < KEPT_EVERY_SECONDS:
                continue
            keep()
            kept, last, waiting = done, time.monotonic(), []
            if not sys.stderr.isatty():  # which has a bar
                say(f"{done:,} of {len(work.images):,} images")
    finally:
        if waiting:
            keep()
