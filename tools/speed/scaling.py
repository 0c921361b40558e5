"""Compute what several GPUs should reach together from the pace of one; nothing here is measured.

docs/scaling.md explains the law and its symbols and holds what this prints.
"""

import math
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from torch.nn import BatchNorm1d, BatchNorm2d

from mmssprl.arguments import Parser
from mmssprl.pyramid import NUM_PYRAMIDS
from mmssprl.tables import markdown_table

from .common.counts import equivalent_crops, parameter_counts
from .common.models import SHIPPED, build_model, shipped_config


class Gpu(NamedTuple):
    """A GPU in a node of eight; bandwidths in GB/s, per direction for links.

    Attributes:
        plain: Crops of 224 px per second of a plain ResNet-50, trained in mixed precision.
        nvlink: To the other GPUs of the node.
        network: From the node, all its cards together.
    """

    plain: float
    nvlink: float
    network: float


_A100 = 2470  # measured by NVIDIA; the others are this rate times the bandwidth of their memory
GPUS = {
    "a100": Gpu(_A100, 300, 8 * 25),
    "h100": Gpu(_A100 * 3.35 / 2.039, 450, 8 * 50),
    "h200": Gpu(_A100 * 4.8 / 2.039, 450, 8 * 50),
}
PER_NODE = 8
BATCH = 64  # images per GPU
AUGMENT_SHARE = 0.10
LINK_SHARE, SMALL_LINK_SHARE = 0.8, 0.25
START_US = 10.0
RING_US, SMALL_RING_US = (3.4, 9.6), (0.47, 2.7)  # a step over NVLink, over the network
SHARED_NODE = 1.8  # factor of the small NVLink step if there are several nodes
BUCKET_BYTES = 25 * 2**20
JPEG_MB = 0.16
LOADER_MS = 6.0
_FLOAT_BYTES = 4


class Traffic(NamedTuple):
    """Collectives of one kind in a step: how many, and their bytes per rank, all together."""

    number: int
    num_bytes: int


@cache
def traffic(num_crops: int) -> dict[str, Traffic]:
    """Count what a step of a shipped config sends: SyncBN, Sinkhorn, gradients."""
    cfg = shipped_config(num_crops)
    model = build_model(cfg)
    groups = len(model.layout.groups)
    layers = [
        (layer.num_features, groups if name.startswith("backbone.") else 1)
        for name, layer in model.named_modules()
        if isinstance(layer, BatchNorm1d | BatchNorm2d)
    ]
    uses, channels = sum(use for _, use in layers), sum(size * use for size, use in layers)
    prototypes = sum(len(model.head.prototypes[s].weight) for s in model.head.assigned_scales)
    num_iters, gradients = model.head.num_iters, parameter_counts(cfg)["gradient_bytes"]
    return {
        # Forward gathers mean, 1 / std and a count; backward sums two gradients.
        "SyncBN": Traffic(2 * uses, _FLOAT_BYTES * (4 * channels + uses)),
        "Sinkhorn": Traffic(num_iters, _FLOAT_BYTES * num_iters * NUM_PYRAMIDS * prototypes),
        "gradients": Traffic(1 + math.ceil(gradients / BUCKET_BYTES), gradients),
    }


def seconds(kind: str, sent: Traffic, gpu: Gpu, num_gpus: int) -> float:
    """Time of all collectives of a kind in a step, none of them hidden behind kernels."""
    nodes = math.ceil(num_gpus / PER_NODE)
    if num_gpus == 1:
        return 0.0
    bandwidth = 1e9 * (gpu.nvlink if nodes == 1 else min(gpu.nvlink, gpu.network))
    if kind == "gradients":  # a ring all-reduce passes each byte on almost twice
        steps = 2 * ((num_gpus - nodes) * RING_US[0] + (nodes - 1) * RING_US[1])
        volume = 2 * (num_gpus - 1) / num_gpus * sent.num_bytes / LINK_SHARE
    else:  # a ring all-gather brings the bytes of all other ranks
        inside = SMALL_RING_US[0] * (SHARED_NODE if nodes > 1 else 1)
        steps = (num_gpus - nodes) * inside + (nodes - 1) * SMALL_RING_US[1]
        volume = (num_gpus - 1) * sent.num_bytes / SMALL_LINK_SHARE
    return sent.number * (START_US + steps) * 1e-6 + volume / bandwidth


def lines(names: Sequence[str], numbers: Sequence[int], plain: float | None) -> Iterator[list[str]]:
    """Return one line per GPU, number of crops and number of GPUs."""
    for name in names:
        gpu = GPUS[name]._replace(plain=plain or GPUS[name].plain)
        for num_crops in SHIPPED:
            kernels = BATCH * equivalent_crops(num_crops) / gpu.plain / (1 - AUGMENT_SHARE)
            for num_gpus in numbers:
                sent = traffic(num_crops)
                parts = [seconds(kind, sent[kind], gpu, num_gpus) for kind in sent]
                step, nodes = kernels + sum(parts), math.ceil(num_gpus / PER_NODE)
                rate = num_gpus * BATCH / step
                yield [
                    *(name, str(num_crops), str(num_gpus)),
                    *(f"{1e3 * part:.1f}" for part in (kernels, *parts, step)),
                    *(f"{rate:,.0f}", f"{kernels / step:.0%}"),
                    *(f"{rate / nodes * LOADER_MS / 1e3:.0f}", f"{rate / nodes * JPEG_MB:.0f}"),
                ]


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = Parser(prog="python -m tools.speed.scaling", description=__doc__)
    parser.add_argument("--gpu", nargs="+", choices=GPUS, default=list(GPUS))
    parser.add_argument("--gpus", nargs="+", type=int, default=[1, 8, 64], metavar="N")
    parser.add_argument(
        "--plain",
        type=float,
        help="crops of 224 px per second of a plain ResNet-50 on one GPU: row `plain` of "
        "tools.speed.gpu (default: the rate published for the GPU)",
    )
    args = parser.parse_args(argv)
    if args.plain is not None and not args.plain > 0:
        parser.error(f"--plain must be above 0, but got {args.plain:g}.")
    for number in args.gpus:
        if number < 1 or (number > PER_NODE and number % PER_NODE):
            parser.error(f"--gpus must be in 1..8 or a multiple of 8, but got {number}.")
    heads = ("GPU", "crops", "n", "kernels ms", *(f"{kind} ms" for kind in traffic(28)))
    heads += ("step ms", "images/s", "of n alone", "cores/node", "JPEG MB/s/node")
    print(markdown_table(heads, list(lines(args.gpu, args.gpus, args.plain))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
