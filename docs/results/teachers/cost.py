"""Measure what a pass of teachers over photographs costs; write cost.csv and table.md.

    OMP_NUM_THREADS=1 python docs/results/teachers/cost.py [--table]

With --table only table.md is made again, from cost.csv. The networks have random weights, which
cost as much as trained ones. Each takes 224 px squares in evaluation mode, as in the pass, on one
core. Times are CPU seconds, so that other work matters less; rounds take the networks in turn.
"""

import csv
import re
import sys
import time
from pathlib import Path
from statistics import median

import timm
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from mmssprl.console.tables import csv_table, markdown_table
from mmssprl.distillation.teacher import Teacher
from mmssprl.features.backbone import FeatureBackbone
from mmssprl.system.environment import describe_machine
from mmssprl.weights import build_backbone, find_config

HERE = Path(__file__).parent
MEASURED_ON_GPU = HERE.parents[2] / "tools/dev/speed/results/gpu.md"
SUPERVISED = "supervised"
TRAINED = {
    "timm/vit_base_patch16_dinov3_qkvb": "DINOv3",
    "timm/vit_small_plus_patch16_dinov3_qkvb": "DINOv3",
    "timm/vit_small_patch16_dinov3_qkvb": "DINOv3",
    "timm/vit_base_patch14_dinov2": "DINOv2",
    "timm/vit_small_patch14_dinov2": "DINOv2",
    "timm/convnext_small.dinov3_lvd1689m": "DINOv3",
    "timm/convnext_tiny.dinov3_lvd1689m": "DINOv3",
    "timm/convnext_tiny": "labels",
    "timm/efficientnet_b0": "labels",
    "timm/efficientnet_lite0": "labels",
    SUPERVISED: "labels",
}
"""The teachers as WEIGHTS, the best family first, and what they were trained by."""
LICENCES = {
    "dinov3-license": "DINOv3 License",
    "apache-2.0": "Apache 2.0",
    "bsd-3-clause": "BSD 3-Clause",
}
"""Names of licences by timm's words for them."""
PX = 224
BATCH = 8
ROUNDS = 5
PASSES_OF_TRAINING = 3  # forward, and twice its operations backward
COLUMNS = ("weights", "licence", "million_weights", "stride", "gflops")
COLUMNS += ("cpu_s_per_1000", "gpu_s_per_1000", "rounds", "machine")
HEADS = ("`--teacher`", "trained by", "licence", "M weights", "cells")
HEADS += ("s on a CPU core", "s on a GPU, computed")


def main() -> None:
    """Measure all networks."""
    torch.set_num_threads(1)
    teachers = {weights: build(weights) for weights in TRAINED}
    images = torch.randint(0, 256, (BATCH, 3, PX, PX), dtype=torch.uint8)
    rounds: dict[str, list[float]] = {weights: [] for weights in TRAINED}
    for _ in range(ROUNDS):
        for weights, teacher in teachers.items():
            teacher(images[:1])  # allocates what the next pass uses
            rounds[weights].append(1000 * seconds_of(teacher, images))

    gflops = {weights: gflops_of(teacher, images[:1]) for weights, teacher in teachers.items()}
    lines = []
    for weights, teacher in teachers.items():
        size = sum(value.numel() for value in teacher.parameters()) / 1e6
        gpu_s = gpu_seconds(gflops[weights], gflops[SUPERVISED])
        line: list[object] = [weights, licence_of(weights), f"{size:.1f}", teacher.stride]
        line += [f"{gflops[weights]:.2f}", f"{median(rounds[weights]):.1f}", f"{gpu_s:.2f}"]
        shown = " ".join(f"{each:.1f}" for each in rounds[weights])
        lines.append([*line, shown, describe_machine("cpu")])
    (HERE / "cost.csv").write_text(csv_table(COLUMNS, lines))


def build(weights: str) -> Teacher:
    """Return a teacher with random weights."""
    cfg = find_config(weights, None)
    return Teacher(weights, FeatureBackbone.of_config(build_backbone(cfg), cfg))


def licence_of(weights: str) -> str:
    """Return timm's word for the licence of weights; timm lists torchvision's weights, too."""
    name = "resnet50.tv_in1k" if weights == SUPERVISED else weights.removeprefix("timm/")
    return timm.get_pretrained_cfg(name).license


def seconds_of(teacher: Teacher, images: Tensor) -> float:
    """Return the CPU seconds of an image."""
    start = time.process_time()
    teacher(images)
    return (time.process_time() - start) / len(images)


def gflops_of(teacher: Teacher, image: Tensor) -> float:
    """Return the operations of an image, a multiplication and an addition counted as two."""
    # The fused kernels of attention are not counted.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        teacher(image)
    return counter.get_total_flops() / 1e9


def gpu_seconds(gflops: float, gflops_resnet50: float) -> float:
    """Return the computed seconds of 1,000 images on an H100, by the operations of a ResNet-50."""
    text = MEASURED_ON_GPU.read_text()
    rates = re.findall(r"^\| images  .* (\d+) images/s", text, re.MULTILINE)
    crops = re.findall(r"^- G1: B = 64. ([\d.]+) crops an image", text, re.MULTILINE)
    per_s = PASSES_OF_TRAINING * float(rates[0]) * float(crops[0])
    return 1000 * gflops / gflops_resnet50 / per_s


def table() -> str:
    """Return the table of cost.csv."""
    with (HERE / "cost.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    lines = []
    for row in rows:
        side = PX // int(row["stride"])
        lines.append(
            [
                f"`{row['weights']}`",
                TRAINED[row["weights"]],
                LICENCES[row["licence"]],
                row["million_weights"],
                f"{side} x {side}",
                f"{float(row['cpu_s_per_1000']):.0f}",
                row["gpu_s_per_1000"],
            ]
        )
    return markdown_table(HEADS, lines, num_left=3) + "\n"


if __name__ == "__main__":
    if "--table" not in sys.argv:
        main()
    (HERE / "table.md").write_text(table())
