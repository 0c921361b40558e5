"""Score frozen features and keep them: `probe` and `embed`."""

import argparse
import json
import shlex
import sys
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..console.tables import csv_table, markdown_table
from ..console.wording import command_line
from ..system.outputs import check_different, write_whole
from ._command import Command, add_feature_options, add_weights, feature_options

_PROBE = """\
Score frozen features: a linear classifier's mAP, or mIoU.

Extract frozen features once (eval mode, average pool, centre crop), fit a
regularised linear classifier on the training images and print its mAP on the test
images. Quick and comparable between backbones; not the paper's SGD protocol. DATA is
whatever `finetune --task classify` takes: COCO .json, PASCAL VOC .xml or YOLO .txt
files, label images, or a folder per class. What finetune validates with (of the same
--seed, where the data have no splits) is tested on. --dense scores the feature map of
whole images instead, by masks: label images, or those of COCO's or YOLO's objects.

examples:
  python -m mmssprl probe work_dirs/scenes/ssprl_resnet18_scenes_backbone.pth data/scenes/coco
  python -m mmssprl probe a.pth b.pth random data/flowers --csv table.csv
  python -m mmssprl probe a.pth random data/VOCdevkit --dense --image-px 448 --per-class
"""

_CSV = (
    *("weights", "config", "data", "layout", "num_train", "num_test", "num_classes"),
    *("num_features", "num_cells", "image_px", "seed", "mIoU", "chance_mIoU"),
    *("mAP", "chance_mAP", "accuracy", "chance_accuracy", "strength", "seconds"),
)
"""Columns of --csv, those that a result has."""


def _add_probe(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    seed = "seed of random weights, validation folds and drawn test images (default: 0)"
    dense = "score the feature map by the class of each pixel (mIoU); DATA must have masks"
    add_weights(parser, nargs="+")
    add("data", metavar="DATA", help="folder of labelled images")
    add_feature_options(parser, seed=seed)
    add("--dense", action="store_true", help=dense)
    add("--per-class", action="store_true", help="print every class's AP or IoU too")
    add("--out", metavar="JSON", help="write all numbers to this file")
    add("--csv", metavar="CSV", help="write the table to this file")
    add("--overwrite", action="store_true", help="replace existing files")


def _probe(args: argparse.Namespace) -> int:
    from ..system.one_run import hold_output

    check_different({"--out": args.out, "--csv": args.csv})
    with ExitStack() as held:
        for path in filter(None, (args.out, args.csv)):
            held.enter_context(hold_output(path, overwrite=args.overwrite))
        return _run_probe(args)


def _run_probe(args: argparse.Namespace) -> int:
    from ..datasets.labels import masks
    from ..features.extract import FeatureOptions
    from ..features.linear_probe import probe_all

    options = FeatureOptions(**feature_options(args))
    results = [asdict(each) for each in probe_all(args.weights, args.data, options, args.dense)]
    print("\n" + format_results(results, per_class=args.per_class))
    if args.out:
        numbers = results if len(results) > 1 else results[0]
        write_whole(args.out, json.dumps(numbers, indent=2) + "\n")
        print(f"\nnumbers: {args.out}")
    if args.csv:
        heads = [name for name in _CSV if name in results[0]]
        rows = [[result[name] for name in heads] for result in results]
        write_whole(args.csv, csv_table(heads, rows))
        print(f"\ntable: {args.csv}")
    score, task = "mAP", "classify"
    if args.dense:
        score, task = "mIoU", "segment" if results[0]["layout"] == masks.TITLE else "detect"
    best = max(results, key=lambda result: result[score])["weights"]
    print(f"\nnext: {command_line('finetune', best, args.data, '--task', task)}")
    return 0


def format_results(results: list[dict[str, Any]], *, per_class: bool = False) -> str:
    """Lay out results as a table with a row for each, in percent."""
    names = [Path(result["weights"]).name for result in results]
    if len(set(names)) < len(names):
        names = [result["weights"] for result in results]
    score = "mIoU" if "mIoU" in results[0] else "mAP"
    rows = []
    for name, result in zip(names, results, strict=True):
        cells = {
            "weights": name,
            "data": f"{result['layout']} {result['data']}",
            "images": f"{result['num_train']} + {result['num_test']}",
            "classes": str(result["num_classes"]),
            "px": str(result["image_px"]),
            f"{score} %": f"{100 * result[score]:.2f}",
            "chance %": f"{100 * result[f'chance_{score}']:.2f}",
        }
        if result.get("accuracy") is not None:
            cells["accuracy %"] = f"{100 * result['accuracy']:.2f}"
            cells["most frequent %"] = f"{100 * result['chance_accuracy']:.2f}"
        rows.append(cells)
    text = markdown_table(list(rows[0]), [list(row.values()) for row in rows], num_left=4)
    if per_class:
        areas = [
            [f"{100 * area:.2f}" if area is not None else "no test image" for area in areas]
            for areas in zip(*(result["per_class"].values() for result in results), strict=True)
        ]
        heads = ["class", *(names if len(names) > 1 else [f"{score[1:]} %"])]
        classes = results[0]["per_class"]
        lines = [[name, *cells] for name, cells in zip(classes, areas, strict=True)]
        text += "\n\n" + markdown_table(heads, lines)
    return text


_EMBED = """\
Write the features of photographs into a file.

Run the frozen backbone over all images of DIR, a folder (searched recursively) or a
tar file, and write their features with their names: the features that `probe`
scores. --patches embeds a patch of each of the pyramid's cells too, from the same
decoded image, at the scale of training, with their boxes. A stopped run goes on where
it was when the same command is given again; unreadable images are left out and listed
in OUT.unreadable.txt. A .parquet also has thumbnails, a place on a map, classes (--labels)
and the prototypes of a training checkpoint, for the viewer embedding-atlas.
docs/embeddings.md tells what to do with the file.

examples:
  python -m mmssprl embed work_dirs/photos/swav-small_resnet18_backbone.pth photos/ photos.npz
  python -m mmssprl embed supervised photos/ cells.parquet --patches --num-workers 8
  python -m mmssprl embed work_dirs/photos/epoch_100.pth flowers/ map.parquet --labels flowers/
"""


def _add_embed(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    patches = "embed a patch of each cell of the config's pyramid beside the whole images"
    labels = "folder of labelled images as `probe` takes, for a column `label` of a .parquet"
    add_weights(parser)
    add("dir", metavar="DIR", help="folder of images or of .tar files, or one .tar file")
    add("out", metavar="OUT", help="file to write: .npz, .csv or .parquet (needs pyarrow)")
    add("--patches", action="store_true", help=patches)
    add_feature_options(parser)
    add("--labels", metavar="DATA", help=labels)
    add(
        "--overwrite",
        action="store_true",
        help="replace an existing file, or what is left of another",
    )


def _embed(args: argparse.Namespace) -> int:
    from ..features.embedding import embed_to_file
    from ..features.extract import FeatureOptions

    options = FeatureOptions(**feature_options(args))
    try:
        more = {name: getattr(args, name) for name in ("patches", "labels", "overwrite")}
        embed_to_file(args.weights, args.dir, args.out, options, **more)
    except KeyboardInterrupt:
        print("stopped; the same command goes on with it.", file=sys.stderr)
        return 130
    suffix = Path(args.out).suffix
    if suffix == ".parquet":
        columns = "--x projection_x --y projection_y --image image"
        print(f"map: embedding-atlas {shlex.quote(args.out)} {columns}")
    embeddings = args.out if suffix != ".csv" else None
    given = {"config": args.config, "image-px": args.image_px, "seed": args.seed or None}
    given |= {"embeddings": embeddings, "out": "rows.png"}
    words = [w for name, value in given.items() if value for w in (f"--{name}", str(value))]
    print(f"next: {command_line('neighbors', args.weights, 'QUERY', args.dir, *words)}")
    return 0


COMMANDS = {
    "probe": Command(_PROBE, _add_probe, _probe),
    "embed": Command(_EMBED, _add_embed, _embed),
}
