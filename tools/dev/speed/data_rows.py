"""The rows of the loader: time against the released recipe's, and what crosses processes."""

from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path

from torch import Tensor
from torch.utils._pytree import tree_leaves

from mmssprl.datasets import UnlabeledImages
from mmssprl.datasets.image_reading import read_image
from mmssprl.pyramid import ViewLayout

from . import loaders
from .gates import Gate, Row, interleave, measured, quartiles, ratio
from .models import our_loader

SIDES = {
    "torchvision": "torchvision/PIL loader of the released recipe",
    "ours": "our loader: decode and uint8 crops",
    "ours_cpu": "our loader and all photometric work on the CPU",
    "decode": "decoding alone",
}
_COMPARISONS = {
    "C1": ("torchvision", "ours", "Ours leaves all photometric work to the device; see C2."),
    "C3": ("ours", "decode", ""),
    "C2": ("torchvision", "ours_cpu", "Equal work: float32 crops, recoloured and normalised."),
}
"""Gate -> the slow side, the fast one, and a note."""
_FEWEST_IMAGES = 16


def rows(images: Path, quick: bool, log: Callable[[str], None]) -> list[Row]:
    """Time and compare the loaders."""
    dataset = our_loader(images, loaders.RELEASED)
    paths = loaders.image_paths(dataset)
    if len(paths) < _FEWEST_IMAGES:
        raise RuntimeError(
            f"images must be a folder of at least {_FEWEST_IMAGES} images, but {images} holds "
            f"{len(paths)}; name another with --images."
        )
    num_rounds = 3 if quick else 16
    log(f"34 crops, {len(SIDES)} loaders, {num_rounds} rounds")
    found = speed_rows(time_loaders(images, loaders.RELEASED, num_rounds))
    return found + crossing_rows(dataset)


def time_loaders(images: Path, layout: ViewLayout, num_rounds: int) -> dict[str, list[float]]:
    """Return seconds per image of every loader; in one round all load the same images."""
    dataset = our_loader(images, layout)
    paths = loaders.image_paths(dataset)
    preprocessor = loaders.our_preprocessor(layout)
    # Whole batches only, so that an image costs the same in every round.
    size = 2 * loaders.BATCH_SIZE
    batches = [range(i, i + size) for i in range(0, len(paths) - size + 1, size)]

    def each(load: Callable[[int], object]) -> Callable[[], None]:
        """Return what loads the images of the next batch one by one."""
        endless = cycle(batches)

        def load_all() -> None:
            for index in next(endless):
                load(index)

        return load_all

    on_cpu = cycle(batches)
    work: dict[str, Callable[[], object]] = {
        "torchvision": each(loaders.TorchvisionLoader(paths, layout).__getitem__),
        "ours": each(dataset.__getitem__),
        "ours_cpu": lambda: loaders.load_on_cpu(dataset, preprocessor, next(on_cpu)),
        "decode": each(lambda index: read_image(paths[index])),
    }
    per_image = {}
    for name, values in interleave(work, num_rounds).items():
        per_image[name] = [value / size for value in values]
    return per_image


def speed_rows(seconds: dict[str, list[float]]) -> list[Row]:
    """Return the ratios of the sides of ``time_loaders``, and milliseconds per image of each."""
    found = [
        measured(row_id, *ratio(seconds[slow], seconds[fast]), note=note)
        for row_id, (slow, fast, note) in _COMPARISONS.items()
    ]
    for side, values in seconds.items():
        if side == "decode":
            row_id = "decode_ms"
            what = f"{SIDES[side]}: CPU time per image"
        else:
            row_id = f"{side}_34_ms"
            what = f"{SIDES[side]}, 34 crops: CPU time per image"
        milliseconds = quartiles([1000 * value for value in values])
        found.append(measured(row_id, *milliseconds, info=Gate(what, "ms", better="lower")))
    return found


def crossing_rows(dataset: UnlabeledImages) -> list[Row]:
    """Count what a sample of 34 crops sends from a worker to the main process."""
    their_tensors = loaders.TorchvisionLoader(loaders.image_paths(dataset), loaders.RELEASED)[0]
    our_tensors = [leaf for leaf in tree_leaves(dataset[0]) if isinstance(leaf, Tensor)]
    our_bytes = _shared_bytes(our_tensors)
    their_bytes = _shared_bytes(their_tensors)
    sizes = f"{our_bytes:,} against {their_bytes:,} bytes, 34 crops."
    tensors = f"Exact; the torchvision/PIL loader has {len(their_tensors)}."
    return [
        measured("C5", our_bytes / their_bytes, note=f"Exact: {sizes}"),
        measured("C6", len(our_tensors), note=tensors),
    ]


def _shared_bytes(tensors: Sequence[Tensor]) -> int:
    """Count what a worker shares: whole storages, also of a tensor that shows only a part."""
    storages = [tensor.untyped_storage() for tensor in tensors]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())
