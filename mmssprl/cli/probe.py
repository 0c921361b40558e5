"""Score frozen features: linear multi-label classifier, mAP.

Extract frozen features once (eval mode, average pool, centre crop), fit a
regularised linear classifier on the training images and print its mAP on the test
images. Quick and comparable between backbones; not the paper's SGD protocol.

examples:
  python -m mmssprl probe work_dirs/demo/ssprl_resnet18_scenes_backbone.pth data/scenes/coco
  python -m mmssprl probe random data/VOCdevkit --config configs/ssprl/ssprl_resnet18_scenes.py
"""

import argparse
from pathlib import Path
from typing import Any

from ..outputs import prepare_output, write_whole
from ..tables import markdown_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = parser.add_argument
    add(
        "weights",
        metavar="WEIGHTS",
        help="backbone weights, a training checkpoint, or the word 'random'",
    )
    add(
        "data",
        metavar="DATA",
        help="folder in COCO layout (train2014, val2014) or VOC layout (VOC2007 trainval, test)",
    )
    add("--config", help="config with model.backbone (default: the one beside WEIGHTS)")
    add(
        "--image-px",
        type=int,
        metavar="PX",
        help="side of the centre crop (default: the image views of the config, or 224)",
    )
    add("--batch-size", type=int, default=64, help="default: %(default)s")
    add("--num-workers", type=int, default=2, help="reading processes (default: %(default)s)")
    add("--device", default="auto", help="auto, cpu, cuda, cuda:1 (default: %(default)s)")
    add("--seed", type=int, default=0, help="of random weights and validation folds (default: 0)")
    add("--per-class", action="store_true", help="print every class's AP too")
    add("--out", metavar="JSON", help="write all numbers to this file")
    add("--force", action="store_true", help="replace an existing JSON")


def run(args: argparse.Namespace) -> int:
    """Measure, print the table, and write the numbers where asked."""
    import json

    from ..evaluation import linear_probe

    if args.out:
        prepare_output(args.out, force=args.force)
    metrics = linear_probe(
        args.weights,
        args.data,
        config=args.config,
        image_px=args.image_px,
        batch_size=args.batch_size,
        num_workers=args.num_workers,
        device=args.device,
        seed=args.seed,
        log=print,
    )
    print("\n" + format_metrics(metrics, per_class=args.per_class))
    if args.out:
        write_whole(args.out, json.dumps(metrics, indent=2) + "\n")
        print(f"\nnumbers: {args.out}")
    return 0


def format_metrics(metrics: dict[str, Any], *, per_class: bool = False) -> str:
    """Lay out what ``linear_probe`` returns as a table, mAP in percent."""
    cells = {
        "weights": Path(metrics["weights"]).name,
        "data": f"{metrics['layout']} {metrics['data']}",
        "images": f"{metrics['num_train']} + {metrics['num_test']}",
        "classes": str(metrics["num_classes"]),
        "px": str(metrics["image_px"]),
        "mAP %": f"{100 * metrics['mAP']:.2f}",
        "chance %": f"{100 * metrics['chance_mAP']:.2f}",
    }
    text = markdown_table(list(cells), [list(cells.values())], num_left=4)
    if per_class:
        rows = [
            [name, "no test image" if area is None else f"{100 * area:.2f}"]
            for name, area in metrics["per_class"].items()
        ]
        text += "\n\n" + markdown_table(["class", "AP %"], rows)
    return text
