"""Seconds of all loaders, interleaved, and the rows that they give."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle
from pathlib import Path

from torch.utils.data import DataLoader, RandomSampler

from mmssprl.datasets import UnlabeledImages
from mmssprl.datasets.image_reading import read_image
from mmssprl.pyramid import ViewLayout

from ..common.clock import interleave, quartiles, ratio
from ..common.gates import Gate, Row, measured
from ..common.models import our_loader
from . import loaders

SIDES = {
    "torchvision": "torchvision/PIL loader of the released recipe",
    "mmpretrain": "mmpretrain's MultiView pipeline",
    "ours": "our loader: decode and uint8 crops",
    "ours_cpu": "our loader and all photometric work on the CPU",
    "decode": "decoding alone",
}


def time_loaders(images: Path, layout: ViewLayout, num_rounds: int) -> dict[str, list[float]]:
    """Return seconds per image of every loader; in one round all load the same images."""
    dataset = our_loader(images, layout)
    paths = loaders.image_paths(dataset)
    preprocessor = loaders.our_preprocessor(layout)
    work: dict[str, Callable[[Sequence[int]], None]] = {
        "torchvision": each(loaders.TorchvisionLoader(paths, layout).__getitem__),
        "mmpretrain": each(loaders.MultiViewLoader(paths, layout).__getitem__),
        "ours": each(dataset.__getitem__),
        "ours_cpu": partial(loaders.load_on_cpu, dataset, preprocessor),
        "decode": each(lambda index: read_image(paths[index])),
    }
    # Whole batches only, so that an image costs the same in every round.
    size = 2 * loaders.BATCH_SIZE
    batches = [range(i, i + size) for i in range(0, len(paths) - size + 1, size)]
    seconds = interleave({name: _in_turn(load, batches) for name, load in work.items()}, num_rounds)
    return {name: [value / size for value in values] for name, values in seconds.items()}


def each(load: Callable[[int], object]) -> Callable[[Sequence[int]], None]:
    """Return a function that loads the images of a list of indices one by one."""

    def load_all(indices: Sequence[int]) -> None:
        for index in indices:
            load(index)

    return load_all


def _in_turn(
    load: Callable[[Sequence[int]], None], batches: Sequence[Sequence[int]]
) -> Callable[[], None]:
    """Return a function that loads the next batch at each call."""
    endless = cycle(batches)
    return lambda: load(next(endless))


def ratio_row(
    row_id: str, seconds: dict[str, list[float]], slow: str, fast: str, note: str = ""
) -> Row:
    """Return how many times faster ``fast`` is than ``slow``, sides of ``time_loaders``."""
    return measured(row_id, *ratio(seconds[slow], seconds[fast]), note=note)


def speed_rows(seconds: dict[str, list[float]], num_crops: int) -> list[Row]:
    """Return milliseconds per image and images per second of every side of ``time_loaders``."""
    found = []
    for side, values in seconds.items():
        row_id, what = f"{side}_{num_crops}", f"{SIDES[side]}, {num_crops} crops"
        if side == "decode":
            if num_crops != loaders.RELEASED.num_crops:
                continue  # the same files as before
            row_id, what = side, SIDES[side]
        per_image = Gate(f"{what}: CPU time per image", "ms", better="lower")
        per_core = Gate(f"{what}: images per second and core", "/s")
        milliseconds = quartiles([1000 * value for value in values])
        found += [
            measured(f"{row_id}_ms", *milliseconds, info=per_image),
            measured(f"{row_id}_rate", 1000 / milliseconds[0], info=per_core),
        ]
    return found


def decoding_row(dataset: UnlabeledImages, paths: Sequence[str], num_rounds: int) -> Row:
    """Time the two alone, so that no other loader's memory stands between them."""
    batch = [range(min(64, len(paths)))]
    sides = {"ours": dataset.__getitem__, "decode": lambda index: read_image(paths[index])}
    work = {name: _in_turn(each(load), batch) for name, load in sides.items()}
    return ratio_row("C3", interleave(work, num_rounds), "ours", "decode")


def worker_rows(dataset: UnlabeledImages, num_rounds: int) -> list[Row]:
    """Measure images per second by the clock, through a real DataLoader."""
    num_images = 256
    data_loaders: dict[int, DataLoader] = {
        workers: DataLoader(
            dataset,
            batch_size=16,
            sampler=RandomSampler(dataset, replacement=True, num_samples=num_images),
            num_workers=workers,
            persistent_workers=True,
        )
        for workers in (1, 2)
    }
    rates: dict[int, list[float]] = {workers: [] for workers in data_loaders}
    # The first epoch starts the workers and is not counted.
    for round_ in range(num_rounds + 1):
        for workers, data_loader in data_loaders.items():
            start = time.perf_counter()
            for _ in data_loader:
                pass
            if round_:
                rates[workers].append(num_images / (time.perf_counter() - start))
    note = "By the clock: whatever else runs on the machine, the main process too, slows it."
    return [
        measured("workers_1_rate", *quartiles(rates[1])),
        measured("workers_2_rate", *quartiles(rates[2])),
        measured("workers_ratio", *ratio(rates[2], rates[1]), note=note),
    ]
