"""Train models of one's own classes, and use them: `finetune` and `predict`."""

import argparse
from dataclasses import fields

from ..console.options import add_options
from ..console.quiet import quiet_console, say
from ..console.wording import command_line
from ..finetuning.options import FinetuneOptions
from ._command import Command

_FINETUNE = """\
Train a task on your own labels: classify, detect or segment.

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


def _add_finetune(parser: argparse.ArgumentParser) -> None:
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


def _finetune(args: argparse.Namespace) -> int:
    with quiet_console(verbose=args.verbose):
        from ..finetuning.start import finetune

        options = {each.name: getattr(args, each.name) for each in fields(FinetuneOptions)}
        outcome = finetune(args.weights, args.data, args.task, args.work_dir, **options, log=say)
        if outcome is None:
            print("not started; nothing was written.")
            return 1
        total = ", ".join(f"{name} {value:.1f} %" for name, value in outcome.scores.total.items())
        print(f"\n{outcome.table}\n\nval, last epoch: {total}")
        if outcome.best:
            epoch, score, file = outcome.best.epoch, outcome.best.score, outcome.best.checkpoint
            print(f"best epoch: {epoch}, {score:.1f} % (chosen by these val images), kept: {file}")
        print("written: " + ", ".join(map(str, outcome.files)))
        folder = outcome.checkpoint.parent
        print(f"next: {command_line('predict', folder, 'IMAGES', '--out', 'predictions')}")
        return 0


_PREDICT = """\
Use a model of `finetune` on a folder of images.

Predict all images below a folder, of any names, and write the result in a common form:
a CSV of scores (classify), a COCO .json (detect), label images in palette colours
(segment); with pictures to look at and the list of classes.

examples:
  python -m mmssprl predict work_dirs/classify_labelled photos/ --out predictions
  python -m mmssprl predict work_dirs/detect_labelled/epoch_12.pth photos/ --out found
"""

_DEFAULT_PICTURES = 100


def _add_predict(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("run_dir", metavar="RUN", help="work dir of `finetune`, or a checkpoint in it")
    add("images", metavar="IMAGES", help="folder of images, searched recursively")
    add("--out", required=True, metavar="DIR", help="new or empty folder for the predictions")
    add(
        "--pictures",
        type=int,
        default=_DEFAULT_PICTURES,
        metavar="N",
        help="draw the predictions of the first N images (default: %(default)s)",
    )


def _predict(args: argparse.Namespace) -> int:
    with quiet_console():
        from ..finetuning.predict import predict

        say(predict(args.run_dir, args.images, args.out, pictures=args.pictures, log=say))
        return 0


COMMANDS = {
    "finetune": Command(_FINETUNE, _add_finetune, _finetune),
    "predict": Command(_PREDICT, _add_predict, _predict),
}
