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

from ..console.quiet import quiet_console, say
from ..console.wording import command_line


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
        help="folder of the run; default: work_dirs/<task>_<DATA>, or -2, -3 ... behind it where "
        "a run on another folder of that name has it",
    )
    add("--epochs", type=int, help="passes over the images; default: chosen")
    add("--batch-size", type=int, help="images per device and step; default: chosen")
    add("--lr", type=float, help="highest learning rate of AdamW; default: chosen")
    add(
        "--image-px",
        type=int,
        metavar="PX",
        help="side of the images (detect: shorter side); default: chosen",
    )
    add(
        "--freeze",
        action="store_true",
        default=None,
        help="keep the backbone as it is, train the heads alone",
    )
    add(
        "--backbone",
        metavar="NAME",
        help="resnet18, resnet34, resnet50 or resnet101, for classify also convnext-tiny, "
        "swin-tiny, vit-small or timm/NAME, for weights without a config beside them; default: "
        "resnet18 on a CPU, else resnet50",
    )
    add(
        "--val-share",
        type=float,
        metavar="SHARE",
        help="of the images, held out where the data have no split of their own (default: 0.2)",
    )
    add("--seed", type=int, help="of all randomness, that choice included (default: 0)")
    add("--resume", action="store_true", help="go on with the run in the work dir")
    add("--yes", action="store_true", help="start even if it will take more than 12 h on a CPU")
    add(
        "--verbose",
        action="store_true",
        help="show all that packages print, log and warn of: environment, config, hooks",
    )


def run(args: argparse.Namespace) -> int:
    """Train, and print the scores; 1 if a person at the terminal finds the run too long."""
    with quiet_console(verbose=args.verbose):
        from ..finetuning.options import Options
        from ..finetuning.start import finetune

        # Only what is given, so that the recipe chooses the rest and --resume can refuse these.
        names = {field.name for field in fields(Options)} - {"weights", "task"}
        given = {k: v for k, v in vars(args).items() if k in names and v is not None}
        outcome = finetune(
            args.weights,
            args.data,
            args.task,
            args.work_dir,
            resume=args.resume,
            yes=args.yes,
            verbose=args.verbose,
            log=say,
            **given,
        )
        if outcome is None:
            print("not started; nothing was written.")
            return 1
        total = ", ".join(f"{name} {value:.1f} %" for name, value in outcome.scores.total.items())
        print(f"\n{outcome.table}\n\nval: {total}")
        print("written: " + ", ".join(map(str, outcome.files)))
        folder = outcome.checkpoint.parent
        print(f"next: {command_line('predict', folder, 'DIR', '--out', 'predictions')}")
        return 0
