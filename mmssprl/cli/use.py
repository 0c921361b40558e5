"""Weights for and from other programs: `export` and `convert`."""

from typing import TYPE_CHECKING

from ..config.shipped import check_config
from ..console.options import argument, option, optional, required
from ..system.commands import command_line
from ..weights import TARGETS
from ..weights.sources import check_weights
from ._command import CONFIG_OF_WEIGHTS, Overwriting

if TYPE_CHECKING:
    from ..weights.convert import ConvertReport

_FORMATS = "; ".join(f"{name}: {target.holds}" for name, target in TARGETS.items())


class ExportCommand(Overwriting):
    """Write backbone weights in the format of another package.

    The file is loaded again, and the features of random images are compared. A file that
    fails this is not kept.

    examples:
      python -m mmssprl export work_dirs/photos/epoch_6.pth --to onnx
      python -m mmssprl export work_dirs/r50/epoch_200.pth --to detectron2 --out ssprl_r50.pkl
    """

    weights: str = argument("training checkpoint or backbone weights", check_weights)
    to: str = required(f"format of the file. {_FORMATS}")
    config: str | None = optional(CONFIG_OF_WEIGHTS, check_config)
    out: str | None = option("file to write", chosen="next to WEIGHTS, with its name")
    keywords = {"to": {"choices": tuple(TARGETS)}}

    def run(self) -> None:
        """Export the weights."""
        from ..weights import export_weights

        report = export_weights(
            self.weights, self.to, self.out, config=self.config, overwrite=self.overwrite
        )
        print(
            f"{report.file}: features differ by {report.difference:.1e} of the largest, "
            f"{report.tolerance:.0e} is allowed"
        )
        kind = report.normalisation.pixels or "8-bit RGB"
        print(f"images: {kind}, {report.normalisation}")


class ConvertCommand(Overwriting):
    """Turn a published checkpoint into backbone weights, or into ours to resume from.

    Rename the tensors and write a description next to them, for the other commands. The
    backbone is found by its tensor names; --prefix selects another network of the file.
    Released SS-PRL is converted with all heads.

    examples:
      python -m mmssprl convert swav_800ep_pretrain.pth.tar
      python -m mmssprl convert dino_resnet50.pth --prefix student --out converted/r50.pth
    """

    file: str = argument("file of torch.save or safetensors, or detectron2's .pkl", check_weights)
    prefix: str | None = option(
        "prefix of the tensor names, such as state_dict.encoder_k", chosen="found"
    )
    out: str | None = option(
        "file to write",
        chosen="work_dirs/converted/NAME/NAME.pth, NAME from WEIGHTS",
    )
    config: str | None = option(
        "released SS-PRL: config of the whole model",
        chosen="the released recipe",
        check=check_config,
    )
    keywords = {"prefix": {"type": str}}  # may be empty

    def run(self) -> None:
        """Convert the checkpoint."""
        from ..weights import convert_weights

        print(format_conversion(convert_weights(**vars(self))))


def format_conversion(report: "ConvertReport") -> str:
    """Return the lines that `convert` prints."""
    lines = [
        f"read from {report.network}",
        f"backbone: ResNet-{report.backbone['depth']}, {len(report.network.tensors)} tensors",
    ]
    for what, groups in (("initialised", report.completed), ("heads kept", report.kept)):
        counts = ", ".join(f"{name} {count}" for name, count in groups.items())
        lines += [f"{what}: {counts}"] if groups else []
    lines.append(f"weights: {report.weights}")
    if report.kept:
        load_from = f"load_from={report.weights}"
        lines.append(f"next: {command_line('train', report.config, '--cfg-options', load_from)}")
    return "\n".join([*lines, f"next: {command_line('probe', report.weights, 'DATA')}"])
