"""Weights for other programs, and from them: `export` and `convert`."""

from typing import TYPE_CHECKING, Literal

from ..console.options import argument, option, optional, required
from ..console.tables import aligned_pairs
from ..console.wording import command_line
from ._command import CONFIG_OF_WEIGHTS, Command, Overwriting

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


Target = Literal["pth", "safetensors", "onnx", "detectron2"]


class _Export(Overwriting):
    weights: str = argument("training checkpoint or backbone weights")
    to: Target = required("format of the file")
    config: str | None = optional(CONFIG_OF_WEIGHTS)
    out: str | None = option("file to write", chosen="beside WEIGHTS, by its name")


def _export(args: _Export) -> int:
    from ..weights import export_weights

    report = export_weights(
        args.weights, args.to, args.out, config=args.config, overwrite=args.overwrite
    )
    print(format_export(report))
    return 0


def format_export(report: "ExportReport") -> str:
    """Lay out a report as a table of two columns."""
    cells = {
        "target": report.target,
        "file": str(report.file),
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


class _Convert(Overwriting):
    file: str = argument("what torch.save or safetensors wrote, or detectron2's .pkl")
    prefix: str | None = option(
        "what the names of the tensors begin with, such as state_dict.encoder_k", chosen="found"
    )
    out: str | None = option(
        "file to write",
        chosen="work_dirs/converted/NAME/NAME.pth, NAME from WEIGHTS",
    )
    config: str | None = option(
        "released SS-PRL: config of the whole model", chosen="the released recipe"
    )


def _convert(args: _Convert) -> int:
    from ..weights import convert_weights

    report = convert_weights(
        args.file, args.out, prefix=args.prefix, config=args.config, overwrite=args.overwrite
    )
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
    "export": Command(_EXPORT, _Export, _export),
    "convert": Command(
        _CONVERT, _Convert, _convert, {"prefix": {"type": str}}
    ),  # which may be empty,
}
