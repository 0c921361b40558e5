"""Score frozen features: a linear classifier's mAP.

Extract frozen features once (eval mode, average pool, centre crop), fit a
regularised linear classifier on the training images and print its mAP on the test
images. Quick and comparable between backbones; not the paper's SGD protocol. DATA is
whatever `finetune --task classify` takes: COCO .json, PASCAL VOC .xml or YOLO .txt
files, label images, or a folder per class. What finetune validates with (of the same
--seed, where the data have no splits) is tested on.

examples:
  python -m mmssprl probe work_dirs/demo/ssprl_resnet18_scenes_backbone.pth data/scenes/coco
  python -m mmssprl probe a.pth b.pth random data/flowers --csv table.csv
  python -m mmssprl probe random data/VOCdevkit --config configs/ssprl/ssprl_resnet18_scenes.py
"""

import argparse
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..console.tables import csv_table, markdown_table
from ..console.wording import command_line
from ..system.outputs import check_different, write_whole
from ._options import add_feature_options, feature_options

_CSV = (
    *("weights", "config", "data", "layout", "num_train", "num_test", "num_classes"),
    *("num_features", "image_px", "seed", "mAP", "chance_mAP", "accuracy", "chance_accuracy"),
    *("strength", "seconds"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = parser.add_argument
    add(
        "weights",
        nargs="+",
        metavar="WEIGHTS",
        help="backbone weights, training checkpoints, 'random' or 'supervised' (torchvision's, for "
        "ResNets); these words take the first file's config",
    )
    add("data", metavar="DATA", help="folder of labelled images")
    add_feature_options(
        parser, seed="seed of random weights, validation folds and drawn test images (default: 0)"
    )
    add("--per-class", action="store_true", help="print every class's AP too")
    add("--out", metavar="JSON", help="write all numbers to this file")
    add("--csv", metavar="CSV", help="write the table to this file")
    add("--force", action="store_true", help="replace existing files")


def run(args: argparse.Namespace) -> int:
    """Measure, print the table, and write the numbers where asked."""
    from ..system.one_run import hold_output

    check_different({"--out": args.out, "--csv": args.csv})
    with ExitStack() as held:
        for path in filter(None, (args.out, args.csv)):
            held.enter_context(hold_output(path, force=args.force))
        return _run(args)


def _run(args: argparse.Namespace) -> int:
    import json

    from ..features.extract import FeatureOptions
    from ..features.linear_probe import probe_all

    options = FeatureOptions(**feature_options(args))
    results = [asdict(each) for each in probe_all(args.weights, args.data, options)]
    print("\n" + format_results(results, per_class=args.per_class))
    if args.out:
        numbers = results if len(results) > 1 else results[0]
        write_whole(args.out, json.dumps(numbers, indent=2) + "\n")
        print(f"\nnumbers: {args.out}")
    if args.csv:
        rows = [[result[name] for name in _CSV] for result in results]
        write_whole(args.csv, csv_table(_CSV, rows))
        print(f"\ntable: {args.csv}")
    best = max(results, key=lambda result: result["mAP"])["weights"]
    print(f"\nnext: {command_line('finetune', best, args.data, '--task', 'classify')}")
    return 0


def format_results(results: list[dict[str, Any]], *, per_class: bool = False) -> str:
    """Lay out results as a table with a row for each, in percent."""
    names = _short_names([result["weights"] for result in results])
    rows = []
    for name, result in zip(names, results, strict=True):
        cells = {
            "weights": name,
            "data": f"{result['layout']} {result['data']}",
            "images": f"{result['num_train']} + {result['num_test']}",
            "classes": str(result["num_classes"]),
            "px": str(result["image_px"]),
            "mAP %": f"{100 * result['mAP']:.2f}",
            "chance %": f"{100 * result['chance_mAP']:.2f}",
        }
        if result["accuracy"] is not None:
            cells["accuracy %"] = f"{100 * result['accuracy']:.2f}"
            cells["most frequent %"] = f"{100 * result['chance_accuracy']:.2f}"
        rows.append(cells)
    text = markdown_table(list(rows[0]), [list(row.values()) for row in rows], num_left=4)
    if per_class:
        areas = [
            [f"{100 * area:.2f}" if area is not None else "no test image" for area in areas]
            for areas in zip(*(result["per_class"].values() for result in results), strict=True)
        ]
        heads = ["class", *(names if len(names) > 1 else ["AP %"])]
        classes = results[0]["per_class"]
        lines = [[name, *cells] for name, cells in zip(classes, areas, strict=True)]
        text += "\n\n" + markdown_table(heads, lines)
    return text


def _short_names(weights: list[str]) -> list[str]:
    """The names of the files, or their whole paths if two have one name."""
    names = [Path(path).name for path in weights]
    return names if len(set(names)) == len(set(weights)) else weights
