"""Train a task on your own labels: classify, detect or segment.

Find the classes and splits of a labelled folder (COCO .json, PASCAL VOC .xml or YOLO .txt
files, label images, or a folder per class), put the weights of a pre-training under
mmpretrain's, mmdet's or mmseg's model, and train it with numbers that suit the number of
images and devices. Ends with scores per class and predictions drawn beside the labels.

examples:
  python -m mmssprl finetune backbone.pth labelled/ --task classify
  python -m mmssprl finetune backbone.pth labelled/ --task detect --epochs 30 --freeze
  python -m mmssprl finetune random labelled/ --task classify --work-dir work_dirs/random
  python -m mmssprl finetune backbone.pth labelled/ --task classify --resume
"""

import argparse
from dataclasses import fields

from ..console.options import add_options
from ..console.quiet import quiet_console, say
from ..console.wording import command_line
from ..finetuning.options import FinetuneOptions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = parser.add_argument
    add(
        "weights",
        metavar="WEIGHTS",
        help="backbone weights, a training checkpoint, or the words 'random' and 'supervised'; the "
        "backbone is that of the config beside the file",
    )
    add("data", metavar="DATA", help="folder of labelled images, in any of the layouts above")
    add("--task", required=True, choices=["classify", "detect", "segment"], help="what to train")
    add(
        "--work-dir",
        help="folder of the run (default: work_dirs/<task>_<DATA>, or -2, -3 ... behind it where "
        "a run on another folder of that name has it)",
    )
    add_options(parser, FinetuneOptions)


def run(args: argparse.Namespace) -> int:
    """Train, and print the scores; 1 if a person at the terminal finds the run too long."""
    with quiet_console(verbose=args.verbose):
        from ..finetuning.start import finetune

        options = {each.name: getattr(args, each.name) for each in fields(FinetuneOptions)}
        outcome = finetune(args.weights, args.data, args.task, args.work_dir, **options, log=say)
        if outcome is None:
            print("not started; nothing was written.")
            return 1
        total = ", ".join(f"{name} {value:.1f} %" for name, value in outcome.scores.total.items())
        print(f"\n{outcome.table}\n\nval: {total}")
        print("written: " + ", ".join(map(str, outcome.files)))
        folder = outcome.checkpoint.parent
        print(f"next: {command_line('predict', folder, 'IMAGES', '--out', 'predictions')}")
        return 0
