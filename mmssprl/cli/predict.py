"""Use a model of `finetune` on a folder of images.

Predict all images below a folder, of any names, and write the result in a common form:
a CSV of scores (classify), a COCO .json (detect), label images in palette colours
(segment); with pictures to look at and the list of classes.

examples:
  python -m mmssprl predict work_dirs/classify_labelled photos/ --out predictions
  python -m mmssprl predict work_dirs/detect_labelled/epoch_12.pth photos/ --out found
"""

import argparse

from ..console.quiet import quiet_console, say

_DEFAULT_PICTURES = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
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


def run(args: argparse.Namespace) -> int:
    """Predict, and print how many images show each class."""
    with quiet_console():
        from ..finetuning.predict import predict

        say(predict(args.run_dir, args.images, args.out, pictures=args.pictures, log=say))
        return 0
