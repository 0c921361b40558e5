"""Train models of one's own classes, and use them: `finetune` and `predict`."""

import argparse
from dataclasses import fields
from pathlib import Path

from ..console.arguments import count
from ..console.options import add_options
from ..console.quiet import say
from ..console.wording import command_line
from ..errors import UserValueError
from ..finetuning.options import FinetuneOptions
from ._command import Command, add_weights

_FINETUNE = """\
Train a task on your own labels: classify, detect or segment.

Find the classes and splits of a labelled folder (COCO .json, PASCAL VOC .xml or YOLO .txt
files, label images, or a folder per class), put the weights of a pre-training under
mmpretrain's, mmdet's or mmseg's model, and train it with numbers that suit the number of
images and devices. Ends with scores per class and predictions drawn beside the labels.

With --baseline, --seeds or several shares many of these are trained, each in a folder of
its own, and make one table. The same command resumes it, and more rows may be added.

examples:
  python -m mmssprl finetune backbone.pth labelled/ --task classify
  python -m mmssprl finetune backbone.pth labelled/ --task detect --epochs 30 --freeze
  python -m mmssprl finetune backbone.pth labelled/ --task classify --resume
  python -m mmssprl finetune backbone.pth labelled/ --task classify --baseline random --seeds 3
  python -m mmssprl finetune backbone.pth labelled/ --task classify --share 1% 10% 100%
"""


def _add_finetune(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    work_dir = "folder of the run (default: work_dirs/<task>_<DATA>, with -2, -3 ... behind it if "
    work_dir += "another folder's run has that name; of many: work_dirs/<task>_<DATA>_runs)"
    baseline = "train these beside WEIGHTS, in the same way and with the same backbone"
    add_weights(parser)
    add("data", metavar="DATA", help="folder of labelled images, in any of the layouts above")
    add("--task", required=True, choices=["classify", "detect", "segment"], help="what to train")
    add("--work-dir", help=work_dir)
    add("--baseline", nargs="+", choices=["random", "supervised"], default=[], help=baseline)
    add("--seeds", type=count, metavar="N", help="train each N times, by seeds 0 to N - 1")
    shares = {"nargs": "+", "type": share, "metavar": "SHARE"}
    add_options(parser, FinetuneOptions, share=shares)


def share(text: str) -> float:
    """Read a share of the labels: ``10%`` or ``0.1``."""
    return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)


def _finetune(args: argparse.Namespace) -> int:
    shares = args.share or [None]
    if args.baseline or args.seeds or len(shares) > 1:
        return _finetune_many(args)
    args.share = shares[0]
    from ..finetuning.start import finetune

    options = {each.name: getattr(args, each.name) for each in fields(FinetuneOptions)}
    outcome = finetune(args.weights, args.data, args.task, args.work_dir, **options, log=say)
    total = ", ".join(f"{name} {value:.1f} %" for name, value in outcome.scores.total.items())
    total = total or "no score, as no object of val counts"
    print(f"\n{outcome.table}\n\nval, last epoch: {total}")
    folder = outcome.checkpoint.parent
    if outcome.best:
        epoch, score, file = outcome.best.values()
        print(f"best epoch: {epoch}, {score:.1f} %, chosen by these images: {folder / file}")
    print("written: " + ", ".join(map(str, outcome.files)))
    print(f"next: {command_line('predict', folder, 'IMAGES', '--out', 'predictions')}")
    return 0


def _finetune_many(args: argparse.Namespace) -> int:
    if args.seed is not None and args.seeds:
        raise UserValueError("--seeds takes the seeds from 0 on; leave --seed or it out.")
    from ..experiments.finetune import FinetuneRequest, compare_finetunings

    options = {each.name: getattr(args, each.name) for each in fields(FinetuneOptions)}
    data = Path(args.data)
    request = FinetuneRequest(
        weights=args.weights,
        baselines=args.baseline,
        data=args.data,
        task=args.task,
        work_dir=Path(args.work_dir or f"work_dirs/{args.task}_{data.resolve().name}_runs"),
        seeds=range(args.seeds) if args.seeds else [args.seed or 0],
        shares=[*dict.fromkeys(args.share or [1.0])],
        asked=FinetuneOptions(**{**options, "share": None, "resume": False}),
    )
    return int(compare_finetunings(request, log=say) > 0)


_PREDICT = """\
Use a model of `finetune` on a folder of images.

Predict all images below a folder, of any names, and write the result in a common form:
a CSV of scores (classify), a COCO .json (detect), label images in palette colours
(segment); with pictures to look at and the list of classes.

examples:
  python -m mmssprl predict work_dirs/classify_labelled photos/ --out predictions
  python -m mmssprl predict work_dirs/detect_labelled/epoch_12.pth photos/ --out found
"""


def _add_predict(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    pictures = "draw the predictions of N images, spread over all (default: %(default)s)"
    add("run_dir", metavar="RUN", help="work dir of `finetune`, or a checkpoint in it")
    add("images", metavar="IMAGES", help="folder of images, searched recursively, or an image")
    add("--out", required=True, metavar="OUT", help="new or empty folder for the predictions")
    add("--pictures", type=int, default=100, metavar="N", help=pictures)


def _predict(args: argparse.Namespace) -> int:
    from ..finetuning.predict import predict

    say(predict(args.run_dir, args.images, args.out, pictures=args.pictures, log=say))
    return 0


COMMANDS = {
    "finetune": Command(_FINETUNE, _add_finetune, _finetune),
    "predict": Command(_PREDICT, _add_predict, _predict),
}
