"""The rows of the loader: time against the other loaders, what crosses processes, fidelity."""

from collections.abc import Callable, Sequence
from pathlib import Path

from torch import Tensor
from torch.utils._pytree import tree_leaves

from mmssprl.datasets import UnlabeledImages

from ..common.gates import Row, measured
from ..common.models import device_path, our_loader
from . import fidelity, loaders, same_views
from .loader_times import SIDES, decoding_row, ratio_row, speed_rows, time_loaders, worker_rows

_FEWEST_IMAGES = 16


def rows(images: Path, quick: bool, log: Callable[[str], None]) -> list[Row]:
    """Check that all loaders do the same, then time and compare them.

    Raises:
        RuntimeError: The loaders do not draw the same crops, or the folder holds too few images.
    """
    dataset = our_loader(images, loaders.RELEASED)
    paths = loaders.image_paths(dataset)
    if len(paths) < _FEWEST_IMAGES:
        raise RuntimeError(
            f"images must be a folder of at least {_FEWEST_IMAGES} images, but {images} holds "
            f"{len(paths)}; name another with --images."
        )
    log("checking that all loaders cut and recolour alike")
    # With many more draws, the 8-bit hue and blur of PIL would count as other distributions.
    checked = same_views.check_same(100 if quick else 600)
    log("fidelity against torchvision and PIL")
    found = _fidelity_rows(paths[: 8 if quick else 32], checked)
    num_rounds = 3 if quick else 16
    log(f"34 crops, {len(SIDES)} loaders, {num_rounds} rounds")
    seconds = time_loaders(images, loaders.RELEASED, num_rounds)
    found += _comparisons(seconds) + speed_rows(seconds, 34)
    log("our loader against decoding alone")
    found.append(decoding_row(dataset, paths, num_rounds))
    log("28 crops")
    seconds = time_loaders(images, loaders.PAPER, 3 if quick else 6)
    found += [
        ratio_row("loader_28", seconds, "torchvision", "ours"),
        ratio_row("photometric_28", seconds, "torchvision", "ours_cpu"),
        *speed_rows(seconds, 28),
        *crossing_rows(dataset),
    ]
    log("DataLoader with 1 and 2 workers")
    return found + worker_rows(dataset, 2 if quick else 6)


def _comparisons(seconds: dict[str, list[float]]) -> list[Row]:
    comparisons = {
        ("C1", "torchvision", "ours"): "Ours leaves all photometric work to the device, theirs "
        "does it; see C2.",
        ("C2", "torchvision", "ours_cpu"): "Equal work: float32 crops, recoloured and normalised, "
        "come out of both.",
        ("C13", "mmpretrain", "ours"): "Theirs does all photometric work, as it is shipped. Patch "
        "crops were added to it, without MultiView's deep copies.",
        ("mmpretrain_photometric", "mmpretrain", "ours_cpu"): "Theirs leaves float32 and "
        "normalisation to its preprocessor, which is not timed.",
    }
    return [
        ratio_row(row_id, seconds, slow, fast, note)
        for (row_id, slow, fast), note in comparisons.items()
    ]


def crossing_rows(dataset: UnlabeledImages) -> list[Row]:
    """Count what a sample of 34 crops sends from a worker to the main process."""
    their_tensors = loaders.TorchvisionLoader(loaders.image_paths(dataset), loaders.RELEASED)[0]
    our_tensors = [leaf for leaf in tree_leaves(dataset[0]) if isinstance(leaf, Tensor)]
    our_bytes, their_bytes = _shared_bytes(our_tensors), _shared_bytes(their_tensors)
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


def _fidelity_rows(paths: Sequence[str], checked: list[same_views.Comparison]) -> list[Row]:
    share = fidelity.share_within_one_level(paths)
    jitter, (blur, near) = fidelity.jitter_difference(paths), fidelity.blur_difference(paths)
    with device_path():
        jitter = max(jitter, fidelity.jitter_difference(paths))
        device_blur, device_near = fidelity.blur_difference(paths)
    raw = min(checked, key=lambda result: result.p)
    return [
        measured("C14_crop", share),
        measured("C14_jitter", jitter, note="The worse of the paths of CPU and device."),
        measured(
            "C14_blur",
            min(near, device_near),
            note="The worse of the paths of CPU and device. PIL rounds to levels six times on the "
            f"way, ours does not: the greatest difference is {max(blur, device_blur):.1f} levels. "
            "The 0.99 is that of the crops.",
        ),
        measured(
            "C14_draws",
            same_views.smallest_p(checked),
            note=f"Bonferroni over {len(checked)} tests (KS, Fisher's for shares) of ours against "
            f"torchvision's and mmpretrain's; the smallest single p is {raw.p:.2g}, "
            f"{raw.quantity}, {raw.side}. A miss stops this part before anything is timed.",
        ),
    ]
