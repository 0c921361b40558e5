"""Pre-train each network of examples/networks, load it back and train it in its own tool.

    python -m tools.dev.networks [NAME ...]

Prints a table: the package, the tensors that the tool's trainer had from the file before its first
step, and the seconds. A package that is not installed is named. Exits with 1 if a network failed.
"""

import argparse
import importlib
import sys
import time
import traceback
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import torch

import mmssprl
from mmssprl.console.tables import markdown_table
from mmssprl.demo import WEIGHTS

from . import trainers
from .data import Scenes
from .trainers import State, Trainer

EXAMPLES = Path(__file__).parents[3] / "examples/networks"


class Case(NamedTuple):
    """A network of another package."""

    example: str  # module of examples/networks
    package: str  # its distribution
    trainer: Trainer
    backbone: str = ""  # as given to ``pretrain``; the example's function by default


CASES = (
    Case("ultralytics_yolo11", "ultralytics", trainers.of_ultralytics),
    Case("torchvision_detection", "torchvision", trainers.of_torchvision),
    Case("detectron2_rcnn", "detectron2", trainers.of_detectron2, "resnet18"),
    Case("smp_unet", "segmentation-models-pytorch", trainers.of_smp),
    Case("timm_mobilenet", "timm", trainers.of_timm, "timm/mobilenetv3_small_100"),
    Case("transformers_vit", "transformers", trainers.of_transformers),
    Case("mmdet_rtmdet", "onedl-mmdetection", trainers.of_mmdet),
    Case("mmseg_segformer", "onedl-mmsegmentation", trainers.of_mmseg),
)


def check(case: Case, scenes: Scenes, folder: Path) -> str:
    """Pre-train a network, take it to its trainer, and describe what the trainer had."""
    example = importlib.import_module(case.example)
    weights = mmssprl.pretrain(
        scenes.images,
        folder / "run",
        backbone=case.backbone or f"{case.example}:backbone",
        teacher=WEIGHTS,
        epochs=1,
        batch_size=8,
        image_px=64,
        num_workers=0,
        log=lambda line: None,
    )
    file = torch.load(weights, weights_only=True)
    had = case.trainer(example, str(weights), scenes, folder / "own")
    return compared(file, had)


def compared(file: State, had: State) -> str:
    """Describe how many tensors of a file a trainer had; raise ValueError if it lacked one.

    detectron2 keeps no step counters of BatchNorm in its files.
    """
    counter = "num_batches_tracked"
    file = {name: value for name, value in file.items() if name in had or counter not in name}
    lacking = [name for name in file if name not in had or not torch.equal(file[name], had[name])]
    if lacking:
        raise ValueError(f"the trainer lacked {len(lacking)} of {len(file)}, first {lacking[0]}")
    others = len(had.keys() - file.keys())
    return f"all {len(file)}" + (f", {others} of its own" if others else "")


def main() -> int:
    """Check the named networks, or all; return how many failed."""
    parser = argparse.ArgumentParser(prog="python -m tools.dev.networks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a module of examples/networks")
    names = parser.parse_args().names
    sys.path.insert(0, str(EXAMPLES))
    rows = []
    num_failed = 0
    with TemporaryDirectory() as temporary:
        scenes = Scenes(Path(temporary) / "data")
        for case in CASES:
            if names and case.example not in names:
                continue
            print(f"== {case.example}", flush=True)
            start = time.monotonic()
            try:
                found = check(case, scenes, Path(temporary) / case.example)
            except ImportError as error:
                found = f"not installed ({error})"
            except Exception:  # the others are still checked
                traceback.print_exc()
                num_failed += 1
                found = "FAILED"
            seconds = f"{time.monotonic() - start:.0f}"
            rows.append([case.example, case.package, _version(case.package), found, seconds])
    heads = ["example", "package", "version", "tensors in its trainer", "seconds"]
    print(markdown_table(heads, rows, num_left=4))
    return num_failed


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "-"


if __name__ == "__main__":
    sys.exit(min(1, main()))
