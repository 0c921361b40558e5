"""Compute memory and time of pre-training per backbone and GPU; what was measured stands beside.

docs/hardware.md holds what this prints, and says what it leaves out.
"""

import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mmengine.config import Config

from mmssprl.arguments import Parser
from mmssprl.pretraining.backbones import BACKBONES
from mmssprl.pretraining.methods.prototypes import SSPRL
from mmssprl.tables import markdown_table

from .common.counts import activation_bytes, forward_flops_per_image, parameter_counts
from .common.models import SHIPPED, shipped_config
from .scaling import AUGMENT_SHARE, BATCH, GPUS

STATE_BYTES = 12
"""Of a parameter: weight, gradient and momentum in float32."""
_DEFAULT, _PAPER = 18, 28
"""Crops of an image in the form that ``pretrain`` takes by itself, and in the paper's."""
_PLAIN_FLOPS = 24.29e9
"""Of a crop of 224 px, forward and backward through a ResNet-50; ``CARDS`` has their rates."""
CARDS = {name: gpu.plain for name, gpu in GPUS.items()} | {
    "rtx 4090": GPUS["a100"].plain * 1.008 / 2.039
}
"""Crops per second of a plain ResNet-50. The consumer's card, of 24 GB, by its memory's bandwidth,
as the others; it has no NVLink, so that ``scaling`` does not know it."""
MEASURED_RATES = {("resnet50", 28, "h100"): 464, ("resnet50", 34, "h100"): 399}
"""Images per second, rows ``images`` and ``images-34`` of results/gpu.md."""
MEASURED_MB = {("resnet50", 28): 336}
"""Of an image on an H100, weights and all, row ``G10`` of results/gpu.md."""


class Cost(NamedTuple):
    """What one backbone takes in one form of SS-PRL.

    Attributes:
        flops: Of an image, forward and backward (twice the forward), heads included.
        num_bytes: On a GPU, with ``BATCH`` images in bfloat16.
    """

    flops: int
    num_bytes: int


def cost_of(backbone: str, num_crops: int) -> Cost:
    """Count what a backbone of ``pretrain`` takes with the published views."""
    cfg = _config_of(backbone, num_crops)
    return Cost(
        3 * forward_flops_per_image(cfg),
        BATCH * activation_bytes(cfg, bfloat16=True)
        + STATE_BYTES * parameter_counts(cfg)["parameters"],
    )


def images_per_second(flops: int, gpu: str) -> float:
    """Return the rate of a GPU that computes as fast as on a plain ResNet-50."""
    return CARDS[gpu] * _PLAIN_FLOPS / flops * (1 - AUGMENT_SHARE)


def lines(backbones: Sequence[str]) -> Iterator[list[str]]:
    """Return one line per backbone and number of crops."""
    for backbone in backbones:
        for num_crops in (_DEFAULT, *SHIPPED):
            cost = cost_of(backbone, num_crops)
            gigabytes = f"{cost.num_bytes / 1e9:.0f}"
            if measured := MEASURED_MB.get((backbone, num_crops)):
                gigabytes += f" (measured {BATCH * measured / 1e3:.1f})"
            hours = []
            for card in CARDS:
                hours.append(_hours(images_per_second(cost.flops, card)))
                if rate := MEASURED_RATES.get((backbone, num_crops, card)):
                    hours[-1] += f" (measured {_hours(rate)})"
            yield [backbone, str(num_crops), f"{cost.flops / 1e9:.0f}", gigabytes, *hours]


def _hours(images_per_second: float) -> str:
    return f"{1e6 / images_per_second / 3600:.2f}"


def _config_of(backbone: str, num_crops: int) -> Config:
    if num_crops == _DEFAULT:
        cfg = shipped_config(_PAPER)
        cfg.model.layout, _ = SSPRL.views(cfg.layout.to_dict())
    else:
        cfg = shipped_config(num_crops)
    cfg.model.backbone = dict(BACKBONES[backbone].cfg)
    cfg.model.neck.in_channels = BACKBONES[backbone].channels
    return cfg


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = Parser(prog="python -m tools.speed.hardware", description=__doc__)
    parser.add_argument("--backbone", nargs="+", choices=BACKBONES, default=list(BACKBONES))
    args = parser.parse_args(argv)
    heads = ["backbone", "crops", "GFLOP/image", f"GB, {BATCH} images"]
    heads += [f"{card}: h per 1 M images" for card in CARDS]
    print(markdown_table(heads, list(lines(args.backbone))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
