"""What large data cost: start-up, memory of the loader's workers, tar files against folders.

Each function measures one thing on its own data in a temporary folder (TMPDIR says where), leaves
nothing behind, and returns rows. 1.28 million images are those of ImageNet; a folder of so many
empty files takes a minute or two to make and to delete.
"""

import multiprocessing
import os
import random
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from unittest import mock

import numpy as np
import psutil

from mmssprl.datasets import UnlabeledImages, image_reading, unlabeled_images
from mmssprl.datasets.image_names import ImageNames

from ..common.clock import interleave, ratio
from ..common.gates import Row, measured
from .loader_times import each

_NUM_IMAGES, _NUM_QUICK = 1_280_000, 50_000
_FOLDERS = 1000
_READS = 100_000
_MOST_READ = 200
"""Images of the folder that are compared with those of a tar file."""


def rows(images: Path, quick: bool, log: Callable[[str], None]) -> list[Row]:
    """Measure with empty files, fewer of them and without a gate if ``quick``, and photographs."""
    num_images = _NUM_QUICK if quick else _NUM_IMAGES
    log(f"start-up: making and listing {num_images:,} empty files")
    found = startup_rows(num_images, gates=not quick)
    log(f"memory of a worker with {num_images:,} paths")
    found += growth_rows(num_images)
    log("tar file against folder")
    return found + tar_rows(images)


def startup_rows(num_images: int, *, gates: bool = True) -> list[Row]:
    """Time how long ``UnlabeledImages`` takes to start, with the folders in the system's memory."""
    note = (
        f"{num_images:,} images, with the folders in memory; a cold disk or a network drive takes "
        "longer."
    )
    with tempfile.TemporaryDirectory(prefix="speed") as root:
        images, names = f"{root}/images", Path(root, "list.txt")
        _make_tree(Path(images), num_images)
        start = time.perf_counter()
        dataset = UnlabeledImages(data_root=images)
        folder_s = time.perf_counter() - start
        names.write_text("\n".join(dataset.names))
        start = time.perf_counter()
        listed = UnlabeledImages(data_root=images, ann_file=str(names))
        list_s = time.perf_counter() - start
        if not len(dataset) == len(listed) == num_images:
            raise RuntimeError(f"all {num_images} images must be found, but got {len(dataset)}.")
    return [
        measured("start_folder", folder_s, gates=gates, note=note),
        measured("start_list", list_s, note=note),
    ]


def growth_rows(num_images: int) -> list[Row]:
    """Measure by how much a forked worker grows when it looks up 100,000 random paths."""
    names = [f"n{i % _FOLDERS:08}/n{i % _FOLDERS:08}_{i}.JPEG" for i in range(num_images)]
    with tempfile.TemporaryDirectory(prefix="speed") as root:
        _make_tree(Path(root), 1)
        dataset = UnlabeledImages(data_root=root)
    table = ImageNames.of(names)
    dataset.data_bytes, dataset.data_address = table.blob, table.ends
    mebibytes = (table.blob.nbytes + table.ends.nbytes) / 2**20
    ours = _growth_bytes(dataset.get_data_info, num_images)
    of_str = _growth_bytes(lambda index: {"img_path": os.path.join("", names[index])}, num_images)
    note = f"{num_images:,} paths take {mebibytes:.0f} MiB once, shared by all workers."
    return [
        measured("worker_growth", ours / _READS, note=note),
        measured("worker_growth_str", of_str / _READS),
    ]


def tar_rows(images: Path, rounds: int = 9) -> list[Row]:
    """Time ``load_image`` from a folder and from a tar file of it, in turn, files in memory.

    The images are read in a random order, as in training.
    """
    with tempfile.TemporaryDirectory(prefix="speed") as root:
        folder = UnlabeledImages(data_root=str(images))
        with tarfile.open(f"{root}/images.tar", "w") as tar:
            for name in folder.names:
                tar.add(images / name, name)
        sides = {"folder": folder, "tar": UnlabeledImages(data_root=f"{root}/images.tar")}
        indices = random.Random(0).sample(range(len(folder)), min(len(folder), _MOST_READ))

        work = {name: partial(each(side.load_image), indices) for name, side in sides.items()}
        loading = interleave(work, rounds)
        with _no_decoding():
            reading = interleave(work, rounds)
    per_image = {name: 1000 * median(values) / len(indices) for name, values in loading.items()}
    note = (
        f"{per_image['tar']:.2f} against {per_image['folder']:.2f} ms of CPU time per image, files "
        "in memory; a tar file helps where opening files is slow."
    )
    return [
        measured("tar_ratio", *ratio(loading["tar"], loading["folder"]), note=note),
        measured("tar_read_ratio", *ratio(reading["tar"], reading["folder"])),
    ]


@contextmanager
def _no_decoding() -> Iterator[None]:
    """Let ``UnlabeledImages.load_image`` read files without decoding them."""
    with (
        mock.patch.object(image_reading, "decode_image", _last_byte),
        mock.patch.object(unlabeled_images, "decode_image", _last_byte),
    ):
        yield


def _last_byte(data: np.ndarray, path: str) -> np.ndarray:
    return data[-1]


def _make_tree(root: Path, num_images: int) -> None:
    """Make empty files in up to 1,000 folders, named as ImageNet's."""
    for number in range(min(_FOLDERS, num_images)):
        folder = root / f"n{number:08}"
        folder.mkdir(parents=True)
        for index in range(number, num_images, _FOLDERS):
            os.close(
                os.open(f"{folder}/n{number:08}_{index}.JPEG", os.O_CREAT | os.O_WRONLY, 0o644)
            )


def _growth_bytes(look_up: Callable[[int], object], num_images: int) -> int:
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
