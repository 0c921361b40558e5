"""Turn a published checkpoint into backbone weights, or into ours to go on from.

Rename the tensors of a published checkpoint and write them, with a config beside
them, for probe and the other commands. Released SS-PRL is converted with all heads,
so that pre-training can go on; of other projects the ResNet is taken. Nothing is
guessed from file names, and the file must fill the network exactly.

examples:
  python -m mmssprl convert swav_800ep_pretrain.pth.tar --from swav
  python -m mmssprl convert R-50.pkl --from auto --out work_dirs/converted/r50/r50.pth
  python -m mmssprl convert checkpoint.pth.tar --from ssprl
"""

import argparse
import shlex
from typing import TYPE_CHECKING

from ..console.tables import aligned_pairs
from ..console.wording import command_line

if TYPE_CHECKING:
    from ..weights import ConvertReport

SOURCES = (
    *("ssprl", "swav", "moco", "byol", "densecl", "detco", "maskco", "insloc"),
    *("torchvision", "detectron2", "auto"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = parser.add_argument
    add("file", metavar="FILE", help="what torch.save or safetensors wrote, or detectron2's .pkl")
    add(
        "--from",
        dest="source",
        choices=SOURCES,
        required=True,
        help="project that published the file; auto looks at the keys",
    )
    add(
        "--out",
        metavar="OUT",
        help="file to write (default: work_dirs/converted/NAME/NAME.pth, NAME from FILE)",
    )
    add("--config", help="for ssprl: config of the whole model (default: the released recipe)")
    add("--force", action="store_true", help="replace existing outputs")


def run(args: argparse.Namespace) -> int:
    """Convert, and print what was found, done and left out."""
    from ..weights import convert_weights

    report = convert_weights(args.file, args.source, args.out, config=args.config, force=args.force)
    print(format_report(report))
    return 0


def format_report(report: "ConvertReport") -> str:
    """Lay out a conversion as a table, and name the command that comes next."""
    table, width = report.key_table, report.backbone.get("base_channels")
    architecture = f"ResNet-{report.backbone['depth']}" + (f", width {width}" if width else "")
    rows = {
        "keys": f"{table.name}: {table.files}",
        "read": f"{report.num_read} tensors",
        "backbone": f"{architecture}: {report.num_backbone} tensors, all matched",
        "set afresh": _counts(report.completed),
        "heads kept": _counts(report.kept),
        "left out": _counts(report.left_out),
        "weights": str(report.weights),
        "config": str(report.config),
    }
    if table.note:
        rows["note"] = table.note
    probe = command_line("probe", report.weights, "data/VOCdevkit", "--config", report.config)
    weights, config = shlex.quote(str(report.weights)), shlex.quote(str(report.config))
    train = f"python tools/train.py {config} --cfg-options load_from={weights}"
    commands = [train, probe] if report.kept else [probe]
    return "\n".join([aligned_pairs(rows), "", "next:", *(f"  {line}" for line in commands)])


def _counts(groups: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in groups.items()) or "none"
