"""What large data cost: start-up, memory of the loader's workers, packed files against folders.

Each function measures one thing on its own data in a temporary folder (TMPDIR says where), leaves
nothing behind, and returns plain numbers. 1.28 million images are those of ImageNet; a folder of
so many empty files takes a minute or two to make and to delete.
"""

import multiprocessing
import os
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import numpy as np
import psutil
from measure import interleave, ratio

from mmssprl.datasets import UnlabeledImages
from mmssprl.datasets.image_names import ImageNames
from mmssprl.datasets.packed_images import PackedImages
from mmssprl.datasets.packing import pack

_FOLDERS = 1000
_READS = 100_000
_SETTLE_S = 2.5
"""Longer than what a folder must be left alone for before its list is kept."""


def startup_seconds(num_images: int = 1_280_000) -> dict[str, float]:
    """Time how long ``UnlabeledImages`` takes to start, with the folders in the system's memory.

    Returns:
        ``num_images``; ``folder_s``, the search of 1,000 folders; ``cached_s``, the same with the
        cached index (kept of 20,000 images or more); ``list_s``, the same names from a text file;
        all in wall seconds, and as ``..._cpu_s`` in seconds of CPU time, which other processes on
        the machine change less.
    """
    with _folder() as root:
        images = _make_tree(root / "images", num_images)
        time.sleep(_SETTLE_S)
        seconds = {}
        with mock.patch.dict(os.environ, {"XDG_CACHE_HOME": str(root / "cache")}):
            dataset = _time(seconds, "folder", lambda: UnlabeledImages(data_root=images))
            _time(seconds, "cached", lambda: UnlabeledImages(data_root=images))
        names = root / "list.txt"
        names.write_text("\n".join(dataset.names))
        _time(seconds, "list", lambda: UnlabeledImages(data_root=images, ann_file=str(names)))
        return {"num_images": len(dataset), **seconds}


def worker_growth(num_images: int = 1_280_000) -> dict[str, float]:
    """Measure by how much a forked worker grows when it looks up 100,000 random paths.

    Returns:
        ``num_images``; ``path_bytes``, what the paths take in memory, shared by all workers;
        ``growth_bytes`` of the worker's own memory (unique set size), of which ``growth_per_read``;
        ``str_growth_bytes`` and ``str_growth_per_read``, the same for a list of str.
    """
    names = [f"n{i % _FOLDERS:08}/n{i % _FOLDERS:08}_{i}.JPEG" for i in range(num_images)]
    with _folder() as root:
        dataset = UnlabeledImages(data_root=_make_tree(root / "one", 1))
    table = ImageNames.of(names)
    dataset.data_bytes, dataset.data_address = table.blob, table.ends
    ours = _growth_bytes(dataset.get_data_info, num_images)
    of_str = _growth_bytes(lambda index: {"img_path": os.path.join("", names[index])}, num_images)
    return {
        "num_images": num_images,
        "path_bytes": table.blob.nbytes + table.ends.nbytes,
        "growth_bytes": ours,
        "growth_per_read": ours / _READS,
        "str_growth_bytes": of_str,
        "str_growth_per_read": of_str / _READS,
    }


def packed_against_folder(image_folder: str | Path, rounds: int = 9) -> dict[str, float]:
    """Time ``load_image`` from a folder and from the packed file, in turn, files in memory.

    Returns:
        ``num_images`` of the folder (at most 200 are read); ``folder_ms`` and ``packed_ms`` of CPU
        time per image, reading and decoding; ``packed_over_folder``, the median of the rounds'
        ratios, with its quartiles ``low`` and ``high``; ``folder_read_ms``, ``packed_read_ms`` and
        ``packed_over_folder_read``, the same without decoding.
    """
    with _folder() as root:
        folder = UnlabeledImages(data_root=str(image_folder))
        out = str(root / "images.lmdb")
        pack(str(image_folder), folder.names, out, log=lambda line: None)
        packed, opened = UnlabeledImages(data_root=out), PackedImages(out)
        indices = np.linspace(0, len(folder) - 1, min(len(folder), 200)).astype(int).tolist()
        sides = {"folder": folder, "packed": packed}
        load = interleave(
            {name: _each(side.load_image, indices) for name, side in sides.items()}, rounds
        )
        reads = {
            "folder": lambda index: np.fromfile(folder.get_data_info(index)["img_path"], np.uint8),
            "packed": lambda index: opened.read(index, out),
        }
        read = interleave({name: _each(side, indices) for name, side in reads.items()}, rounds)
    middle, low, high = ratio(load["packed"], load["folder"])
    per_image = 1000 / len(indices)
    return {
        "num_images": len(folder),
        "folder_ms": per_image * statistics.median(load["folder"]),
        "packed_ms": per_image * statistics.median(load["packed"]),
        "packed_over_folder": middle,
        "low": low,
        "high": high,
        "folder_read_ms": per_image * statistics.median(read["folder"]),
        "packed_read_ms": per_image * statistics.median(read["packed"]),
        "packed_over_folder_read": ratio(read["packed"], read["folder"])[0],
    }


@contextmanager
def _folder() -> Iterator[Path]:
    path = tempfile.mkdtemp(prefix="large_data")
    try:
        yield Path(path)
    finally:
        shutil.rmtree(path)


def _make_tree(root: Path, num_images: int) -> str:
    """Make empty files in up to 1,000 folders, named as ImageNet's."""
    for number in range(min(_FOLDERS, num_images)):
        folder = root / f"n{number:08}"
        folder.mkdir(parents=True)
        for index in range(number, num_images, _FOLDERS):
            os.close(
                os.open(f"{folder}/n{number:08}_{index}.JPEG", os.O_CREAT | os.O_WRONLY, 0o644)
            )
    return str(root)


def _time(
    seconds: dict[str, float], name: str, work: Callable[[], UnlabeledImages]
) -> UnlabeledImages:
    """Add the wall and CPU seconds of the work, and return its result."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    seconds[f"{name}_s"] = time.perf_counter() - wall
    seconds[f"{name}_cpu_s"] = time.process_time() - cpu
    return result


def _each(work: Callable[[int], object], indices: list[int]) -> Callable[[], None]:
    def run() -> None:
        for index in indices:
            work(index)

    return run


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
