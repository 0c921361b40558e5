"""Write weights for torchvision, timm, mmdet, mmseg, detectron2, safetensors or ONNX.

Write the backbone in another package's format, load the file into that package's
own model and compare every tensor and the features of random images. A file that
fails this is not kept.

examples:
  python -m mmssprl export work_dirs/demo/epoch_6.pth --to mmdet
  python -m mmssprl export work_dirs/r50/epoch_200.pth --to detectron2 --out ssprl_r50.pkl
  python -m mmssprl export work_dirs/r50/epoch_200.pth --to safetensors --full
"""

import argparse
from typing import TYPE_CHECKING

from ..console.tables import aligned_pairs

if TYPE_CHECKING:
    from ..weights import ExportReport

_TARGETS = (
    *("backbone", "torchvision", "timm", "mmdet", "mmseg", "detectron2"),
    *("safetensors", "onnx"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = parser.add_argument
    add("checkpoint", metavar="CKPT", help="training checkpoint or backbone weights")
    add("--to", required=True, choices=_TARGETS, help="who reads the file")
    add("--config", help="config with model.backbone (default: the one beside CKPT)")
    add(
        "--out",
        metavar="FILE",
        help="file to write (default: beside CKPT, by its name with _TARGET, which is left out "
        "where name or suffix say it; never CKPT itself)",
    )
    add(
        "--full",
        action="store_true",
        help="keep heads, prototypes and queues, to go on pre-training (backbone, safetensors)",
    )
    add("--force", action="store_true", help="replace an existing file")


def run(args: argparse.Namespace) -> int:
    """Export, and print the report."""
    from ..weights import export_weights

    report = export_weights(
        args.checkpoint, args.to, args.out, config=args.config, full=args.full, force=args.force
    )
    print(format_report(report))
    return 0


def format_report(report: "ExportReport") -> str:
    """Lay out a report as a table of two columns, with its notes below."""
    cells = {
        "target": report.target,
        "file": str(report.file),
        "size": f"{report.num_bytes / 1e6:.2f} MB",
        "tensors matched": "in the graph" if report.matched is None else str(report.matched),
        "missing": ", ".join(report.missing) or "none",
        "unexpected": "none; one would have been an error",
        "proved on": report.model,
        "feature map differs by": f"{report.map_difference:.1e}",
        "pooled features differ by": f"{report.pooled_difference:.1e}",
        "allowed": f"{report.tolerance:.0e} of the largest feature",
    }
    return "\n".join([aligned_pairs(cells), *(f"\n{note}" for note in report.notes)])
