"""What large data cost: start-up, and memory of the loader's workers.

The data lie in a temporary folder (TMPDIR says where). 1.28 million images are those of ImageNet;
so many empty files take a minute or two to make and to delete.
"""

import multiprocessing
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from mmssprl.datasets import UnlabeledImages
from mmssprl.datasets.image_names import ImageNames

from .gates import Row, measured

_NUM_IMAGES, _NUM_QUICK = 1_280_000, 50_000
_FOLDERS = 1000
_READS = 100_000


def rows(images: Path, quick: bool, log: Callable[[str], None]) -> list[Row]:
    """Measure with empty files, fewer of them and without a gate for the start if ``quick``."""
    num_images = _NUM_QUICK if quick else _NUM_IMAGES
    log(f"start-up: making and listing {num_images:,} empty files")
    found = [startup_row(num_images, gates=not quick)]
    log(f"memory of a worker with {num_images:,} paths")
    return [*found, growth_row(num_images)]


def startup_row(num_images: int, *, gates: bool = True) -> Row:
    """Time how long ``UnlabeledImages`` takes to start, with the folders in the system's memory."""
    with tempfile.TemporaryDirectory(prefix="speed") as root:
        _make_tree(Path(root), num_images)
        start = time.perf_counter()
        dataset = UnlabeledImages(data_root=root)
        seconds = time.perf_counter() - start
    note = f"{len(dataset):,} images, with the folders in memory; a cold disk takes longer."
    return measured("start_folder", seconds, gates=gates, note=note)


def growth_row(num_images: int) -> Row:
    """Measure by how much a forked worker grows when it looks up 100,000 random paths."""
    names = [f"n{i % _FOLDERS:08}/n{i % _FOLDERS:08}_{i}.JPEG" for i in range(num_images)]
    with tempfile.TemporaryDirectory(prefix="speed") as root:
        _make_tree(Path(root), 1)
        dataset = UnlabeledImages(data_root=root)
    table = ImageNames.of(names)
    dataset.data_bytes, dataset.data_address = table.blob, table.ends
    mebibytes = (table.blob.nbytes + table.ends.nbytes) / 2**20
    note = f"{num_images:,} paths take {mebibytes:.0f} MiB once, shared by all workers."
    growth = growth_bytes(dataset.get_data_info, num_images)
    return measured("worker_growth", growth / _READS, note=note)


def growth_bytes(look_up: Callable[[int], object], num_images: int) -> int:
    """Return by how much the memory of a forked process grows that is not shared."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def work() -> None:
        process = psutil.Process()
        draw = random.Random(0).randrange  # a list of numbers from the parent would be copied too
        uss = []
        for reads in (1000, _READS):  # the first are what Python itself needs once
            for _ in range(reads):
                look_up(draw(num_images))
            uss.append(process.memory_full_info().uss)
        sender.send(uss[1] - uss[0])

    worker = context.Process(target=work)
    worker.start()
    sender.close()  # so that a worker that dies ends the waiting
    growth = receiver.recv()
    worker.join()
    return growth


def _make_tree(root: Path, num_images: int) -> None:
    """Make empty files in up to 1,000 folders, named as ImageNet's."""
    for number in range(min(_FOLDERS, num_images)):
        folder = root / f"n{number:08}"
        folder.mkdir(parents=True)
        for index in range(number, num_images, _FOLDERS):
            (folder / f"n{number:08}_{index}.JPEG").touch()
