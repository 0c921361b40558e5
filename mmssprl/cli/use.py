"""Weights for and from other programs: `export` and `convert`."""

from typing import TYPE_CHECKING, Literal

from ..console.options import argument, option, optional, required
from ..console.wording import command_line
from ._command import CONFIG_OF_WEIGHTS, Command, Overwriting

if TYPE_CHECKING:
    from ..weights.convert import ConvertReport

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
    out: str | None = option("file to write", chosen="next to WEIGHTS, with its name")


def _export(args: _Export) -> None:
    from ..weights import export_weights

    report = export_weights(
        args.weights, args.to, args.out, config=args.config, overwrite=args.overwrite
    )
    print(
        f"{report.file}: features differ by {report.difference:.1e} of the largest, "
        f"{report.tolerance:.0e} is allowed"
    )


_CONVERT = """\
Turn a published checkpoint into backbone weights, or into ours to resume from.

Rename the tensors and write a description next to them, for the other commands. The
backbone is found by its tensor names; --prefix selects another network of the file.
Released SS-PRL is converted with all heads.

examples:
  python -m mmssprl convert swav_800ep_pretrain.pth.tar
  python -m mmssprl convert dino_resnet50.pth --prefix student --out work_dirs/converted/r50.pth
"""


class _Convert(Overwriting):
    file: str = argument("file of torch.save or safetensors, or detectron2's .pkl")
    prefix: str | None = option(
        "prefix of the tensor names, such as state_dict.encoder_k", chosen="found"
    )
    out: str | None = option(
        "file to write",
        chosen="work_dirs/converted/NAME/NAME.pth, NAME from WEIGHTS",
    )
    config: str | None = option(
        "released SS-PRL: config of the whole model", chosen="the released recipe"
    )


def _convert(args: _Convert) -> None:
    from ..weights import convert_weights

    report = convert_weights(
        args.file, args.out, prefix=args.prefix, config=args.config, overwrite=args.overwrite
    )
    print(format_conversion(report))


def format_conversion(report: "ConvertReport") -> str:
    """Return the lines that `convert` prints."""
    lines = [
        f"read from {report.branch}",
        f"backbone: ResNet-{report.backbone['depth']}, {len(report.branch.tensors)} tensors",
    ]
    for what, groups in (("initialised", report.completed), ("heads kept", report.kept)):
        counts = ", ".join(f"{name} {count}" for name, count in groups.items())
        lines += [f"{what}: {counts}"] if groups else []
    lines.append(f"weights: {report.weights}")
    if report.kept:
        load_from = f"load_from={report.weights}"
        lines.append(f"next: {command_line('train', report.config, '--cfg-options', load_from)}")
    return "\n".join([*lines, f"next: {command_line('probe', report.weights, 'DATA')}"])


COMMANDS = {
    "export": Command(_EXPORT, _Export, _export),
    "convert": Command(_CONVERT, _Convert, _convert, {"prefix": {"type": str}}),  # may be empty
}
