"""Seconds of all loaders, interleaved, and the rows that they give."""

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from pathlib import Path

import loaders
from measure import Row, interleave, ratio, spread
from torch.utils.data import DataLoader, RandomSampler, default_collate

from mmssprl.datasets.image_reading import read_image
from mmssprl.datasets.unlabeled_images import UnlabeledImages
from mmssprl.pyramid import ViewLayout

SIDES = {
    "torchvision": "torchvision/PIL loader of the released recipe",
    "mmpretrain": "mmpretrain's MultiView pipeline",
    "ours": "our loader: decode and uint8 crops",
    "ours_cpu": "our loader and all photometric work on the CPU",
    "decode": "decoding alone",
}


def time_loaders(images: Path, layout: ViewLayout, num_rounds: int) -> dict[str, list[float]]:
    """Return seconds per image of every loader; in one round all load the same images."""
    dataset = loaders.our_loader(images, layout)
    paths = loaders.image_paths(dataset)
    on_cpu = loaders.OursOnCpu(dataset, layout)
    torchvision = loaders.TorchvisionLoader(paths, layout)
    mmpretrain = loaders.MultiViewLoader(paths, layout)

    def each(load: Callable[[int], object]) -> Callable[[Sequence[int]], None]:
        def load_all(indices: Sequence[int]) -> None:
            for index in indices:
                load(index)

        return load_all

    work = {
        "torchvision": each(torchvision.__getitem__),
        "mmpretrain": each(mmpretrain.__getitem__),
        "ours": each(dataset.__getitem__),
        "ours_cpu": on_cpu.run,
        "decode": each(lambda index: read_image(paths[index])),
    }
    # Whole batches only, so that an image costs the same in every round.
    size = 2 * on_cpu.batch_size
    batches = [range(i, i + size) for i in range(0, len(paths) - size + 1, size)]
    seconds = interleave(
        {name: _in_turn(work_on, batches) for name, work_on in work.items()}, num_rounds
    )
    return {name: [value / size for value in values] for name, values in seconds.items()}


def _in_turn(
    work_on: Callable[[Sequence[int]], None], batches: Sequence[Sequence[int]]
) -> Callable[[], None]:
    """Return a function that works on the next batch at each call."""
    endless: Iterator[Sequence[int]] = cycle(batches)
    return lambda: work_on(next(endless))


def ratio_row(
    row_id: str,
    what: str,
    seconds: dict[str, list[float]],
    slow: str,
    fast: str,
    *,
    gate: float | None = None,
    stretch: float | None = None,
    note: str = "",
) -> Row:
    """Return how many times faster ``fast`` is than ``slow``, sides of ``time_loaders``."""
    middle, low, high = ratio(seconds[slow], seconds[fast])
    return Row(row_id, what, middle, "x", gate=gate, stretch=stretch, spread=(low, high), note=note)


def speed_rows(seconds: dict[str, list[float]], num_crops: int) -> list[Row]:
    """Return milliseconds per image and images per second of every side of ``time_loaders``."""
    found = []
    for name, values in seconds.items():
        if name == "decode" and num_crops != loaders.RELEASED.num_crops:
            continue  # the same files as before
        crops = "" if name == "decode" else f", {num_crops} crops"
        middle, low, high = spread([1000 * value for value in values])
        row_id = name if name == "decode" else f"{name}_{num_crops}"
        what = f"{SIDES[name]}{crops}"
        found += [
            Row(
                f"{row_id}_ms",
                f"{what}: CPU time per image",
                middle,
                "ms",
                better="lower",
                spread=(low, high),
            ),
            Row(f"{row_id}_rate", f"{what}: images per second and core", 1000 / middle, "/s"),
        ]
    return found


def decoding_row(dataset: UnlabeledImages, paths: Sequence[str], num_rounds: int) -> Row:
    """Time the two alone, so that no other loader's memory stands between them."""
    indices = range(min(64, len(paths)))

    def load() -> None:
        for index in indices:
            dataset[index]

    def decode() -> None:
        for index in indices:
            read_image(paths[index])

    seconds = interleave({"ours": load, "decode": decode}, num_rounds)
    middle, low, high = ratio(seconds["ours"], seconds["decode"])
    return Row(
        "C3",
        "our loader against decoding alone, 34 crops",
        middle,
        "x",
        gate=3,
        stretch=2,
        better="lower",
        spread=(low, high),
    )


def worker_rows(dataset: UnlabeledImages, num_rounds: int) -> list[Row]:
    """Measure images per second by the clock, through a real DataLoader."""
    num_images = 256
    data_loaders = {
        workers: DataLoader(
            dataset,
            batch_size=16,
            sampler=RandomSampler(dataset, replacement=True, num_samples=num_images),
            num_workers=workers,
            persistent_workers=True,
            collate_fn=default_collate,
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
    found = []
    for workers, values in rates.items():
        middle, low, high = spread(values)
        what = f"our DataLoader, {workers} worker{'s'[: workers - 1]}, batches of 16: images"
        found.append(Row(f"workers_{workers}_rate", what, middle, "/s", spread=(low, high)))
    middle, low, high = ratio(rates[2], rates[1])
    note = "By the clock: whatever else runs on the machine, the main process too, slows it."
    what = "our DataLoader: 2 workers against 1"
    return [*found, Row("workers_ratio", what, middle, "x", spread=(low, high), note=note)]
