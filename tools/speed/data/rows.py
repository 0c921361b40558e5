"""The gates of the loader: time against the other loaders, what crosses processes, fidelity."""

from collections.abc import Callable, Sequence
from pathlib import Path

import fidelity
import loaders
import same_views
from loader_times import (
    SIDES,
    decoding_row,
    ratio_row,
    speed_rows,
    time_loaders,
    worker_rows,
)
from measure import Row
from operator_counts import device_path
from torch import Tensor

from mmssprl.datasets.unlabeled_images import UnlabeledImages

_FEWEST_IMAGES = 16


def rows(images: Path, quick: bool, log: Callable[[str], None]) -> list[Row]:
    """Check that all loaders do the same, then time and compare them.

    Args:
        images: Folder of photographs, at least 16.
        quick: Few rounds, to see that everything runs; the numbers are rough.
        log: Receives a line before each part.

    Raises:
        RuntimeError: The loaders do not draw the same crops, or the folder holds too few images.
    """
    dataset = loaders.our_loader(images, loaders.RELEASED)
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
    found = _fidelity(paths[: 8 if quick else 32], checked)
    num_rounds = 3 if quick else 16
    log(f"34 crops, {len(SIDES)} loaders, {num_rounds} rounds")
    seconds = time_loaders(images, loaders.RELEASED, num_rounds)
    found += _comparisons(seconds, "34 crops") + speed_rows(seconds, 34)
    log("our loader against decoding alone")
    found.append(decoding_row(dataset, paths, num_rounds))
    log("28 crops")
    seconds = time_loaders(images, loaders.PAPER, 3 if quick else 6)
    found += [
        ratio_row("loader_28", "as C1, 28 crops", seconds, "torchvision", "ours"),
        ratio_row("photometric_28", "as C2, 28 crops", seconds, "torchvision", "ours_cpu"),
        *speed_rows(seconds, 28),
    ]
    found += crossing_rows(dataset)
    log("DataLoader with 1 and 2 workers")
    return found + worker_rows(dataset, 2 if quick else 6)


def _comparisons(seconds: dict[str, list[float]], crops: str) -> list[Row]:
    return [
        ratio_row(
            "C1",
            f"our loader against torchvision/PIL, {crops}",
            seconds,
            "torchvision",
            "ours",
            gate=12,
            stretch=18,
            note="Ours leaves all photometric work to the device, theirs does it; see C2.",
        ),
        ratio_row(
            "C2",
            f"the same with our photometric work on the CPU, {crops}",
            seconds,
            "torchvision",
            "ours_cpu",
            gate=4,
            stretch=10,
            note="Equal work: float32 crops, recoloured and normalised, come out of both.",
        ),
        ratio_row(
            "C13",
            f"our loader against mmpretrain's MultiView pipeline, {crops}",
            seconds,
            "mmpretrain",
            "ours",
            gate=3,
            stretch=6,
            note="Theirs does all photometric work, as it is shipped; patch crops added to it "
            "without MultiView's deep copies.",
        ),
        ratio_row(
            "mmpretrain_photometric",
            f"as C13 with our photometric work on the CPU, {crops}",
            seconds,
            "mmpretrain",
            "ours_cpu",
            note="Theirs leaves float32 and normalisation to its preprocessor, which is not timed.",
        ),
    ]


def crossing_rows(dataset: UnlabeledImages) -> list[Row]:
    """Count what a sample of 34 crops sends from a worker to the main process."""
    ours = _tensors(dataset[0])
    theirs = _tensors(loaders.TorchvisionLoader(loaders.image_paths(dataset), loaders.RELEASED)[0])
    our_bytes, their_bytes = (sum(t.nbytes for t in tensors) for tensors in (ours, theirs))
    return [
        Row(
            "C5",
            "bytes per image crossing processes, against float32 crops",
            our_bytes / their_bytes,
            "x",
            gate=0.26,
            better="lower",
            note=f"Exact: {our_bytes:,} against {their_bytes:,} bytes, 34 crops.",
        ),
        Row(
            "C6",
            "tensors per sample",
            len(ours),
            "",
            gate=4,
            better="lower",
            note=f"Exact; the torchvision/PIL loader has {len(theirs)}.",
        ),
    ]


def _tensors(item: object) -> list[Tensor]:
    """Return all tensors in nested dicts and lists."""
    if isinstance(item, Tensor):
        return [item]
    values = item.values() if isinstance(item, dict) else item
    if not isinstance(item, dict | list | tuple):
        return []
    return [tensor for value in values for tensor in _tensors(value)]


def _fidelity(paths: Sequence[str], checked: list[same_views.Comparison]) -> list[Row]:
    share = fidelity.share_within_one_level(paths)
    jitter, (blur, near) = fidelity.jitter_difference(paths), fidelity.blur_difference(paths)
    with device_path():
        jitter = max(jitter, fidelity.jitter_difference(paths))
        device_blur, device_near = fidelity.blur_difference(paths)
    blur, near = max(blur, device_blur), min(near, device_near)
    raw = min(checked, key=lambda result: result.p)
    return [
        Row(
            "C14_crop", "resized crops: share of pixels within 1 level of PIL", share, "", gate=0.99
        ),
        Row(
            "C14_jitter",
            "colour jitter, paths of CPU and device: greatest difference to torchvision, of 1",
            jitter,
            "",
            gate=2 / 255,
            better="lower",
        ),
        Row(
            "C14_blur",
            "blur, paths of CPU and device: share of values within 2 levels of PIL",
            near,
            "",
            gate=0.99,
            note="PIL rounds to levels six times on the way, ours does not: the greatest "
            f"difference is {blur:.1f} levels. The 0.99 is that of the crops.",
        ),
        Row(
            "C14_draws",
            "distributions of boxes, flips, colours, blurs: p, all tests together",
            same_views.smallest_p(checked),
            "",
            gate=same_views.MIN_P,
            note=f"Bonferroni over {len(checked)} tests (KS, Fisher's for shares) of ours against "
            f"torchvision's and mmpretrain's; the smallest single p is {raw.p:.2g}, "
            f"{raw.quantity}, {raw.side}. A miss stops this part before anything is timed.",
        ),
    ]
