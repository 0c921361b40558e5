"""Weights for other programs, and from them: `export` and `convert`."""

import argparse
from typing import TYPE_CHECKING

from ..console.tables import aligned_pairs
from ..console.wording import command_line
from ._command import CONFIG_OF_WEIGHTS, Command

if TYPE_CHECKING:
    from ..weights import ConvertReport, ExportReport

_EXPORT = """\
Write backbone weights as .pth, safetensors, ONNX or for detectron2.

torchvision, timm, mmpretrain, mmdet and mmseg read pth. The file is loaded again, and
the features of random images are compared. A file that fails this is not kept.

examples:
  python -m mmssprl export work_dirs/photos/epoch_6.pth --to onnx
  python -m mmssprl export work_dirs/r50/epoch_200.pth --to detectron2 --out ssprl_r50.pkl
"""

TARGETS = ("pth", "safetensors", "onnx", "detectron2")


def _add_export(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("weights", metavar="WEIGHTS", help="training checkpoint or backbone weights")
    add("--to", required=True, choices=TARGETS, help="format of the file")
    add("--config", help=CONFIG_OF_WEIGHTS)
    add("--out", metavar="OUT", help="file to write (default: beside WEIGHTS, by its name)")
    add("--overwrite", action="store_true", help="replace an existing OUT")


def _export(args: argparse.Namespace) -> int:
    from ..weights import export_weights

    options = {"config": args.config, "overwrite": args.overwrite}
    report = export_weights(args.weights, args.to, args.out, **options)
    print(format_export(report))
    return 0


def format_export(report: "ExportReport") -> str:
    """Lay out a report as a table of two columns."""
    cells = {
        "target": report.target,
        "file": str(report.file),
        "size": f"{report.num_bytes / 1e6:.2f} MB",
        "tensors": str(report.num_tensors),
        "features differ by": f"{report.difference:.1e} of the largest",
        "allowed": f"{report.tolerance:.0e}",
    }
    return aligned_pairs(cells)


_CONVERT = """\
Turn a published checkpoint into backbone weights, or into ours to resume from.

Write the tensors under our names, with a description next to them, for probe and the
other commands. The backbone is found by its names; --prefix names another network of
the file. Released SS-PRL is converted with all heads. The file must fill the network
exactly.

examples:
  python -m mmssprl convert swav_800ep_pretrain.pth.tar
  python -m mmssprl convert dino_resnet50.pth --prefix student --out work_dirs/converted/r50.pth
"""


def _add_convert(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    prefix = (
        "what the names of the tensors begin with, such as state_dict.encoder_k (default: found)"
    )
    out = "file to write (default: work_dirs/converted/NAME/NAME.pth, NAME from WEIGHTS)"
    add(
        "file", metavar="WEIGHTS", help="what torch.save or safetensors wrote, or detectron2's .pkl"
    )
    add("--prefix", type=str, help=prefix)  # which may be empty
    add("--out", metavar="OUT", help=out)
    add(
        "--config", help="released SS-PRL: config of the whole model (default: the released recipe)"
    )
    add("--overwrite", action="store_true", help="replace an existing OUT")


def _convert(args: argparse.Namespace) -> int:
    from ..weights import convert_weights

    options = {name: getattr(args, name) for name in ("prefix", "config", "overwrite")}
    report = convert_weights(args.file, args.out, **options)
    print(format_conversion(report))
    return 0


def format_conversion(report: "ConvertReport") -> str:
    """Lay out a conversion as a table, and name the command that comes next."""
    rows = {
        "read from": str(report.branch),
        "backbone": f"ResNet-{report.backbone['depth']}: {len(report.branch.tensors)} tensors",
        "set afresh": _counts(report.completed),
        "heads kept": _counts(report.kept),
        "weights": str(report.weights),
        "description": str(report.description),
    }
    commands = [command_line("probe", report.weights, "DATA")]
    if report.kept:
        load_from = f"load_from={report.weights}"
        commands.insert(0, command_line("train", report.config, "--cfg-options", load_from))
    return "\n".join([aligned_pairs(rows), "", "next:", *(f"  {line}" for line in commands)])


def _counts(groups: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in groups.items()) or "none"


COMMANDS = {
    "export": Command(_EXPORT, _add_export, _export),
    "convert": Command(_CONVERT, _add_convert, _convert),
}
