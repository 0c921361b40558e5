"""Train models on labelled images and use them: `finetune` and `predict`."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from ..console.options import argument, option, required, typed_options
from ..console.paths import check_checkpoint, check_data, check_images
from ..console.quiet import say
from ..errors import UserValueError
from ..finetuning.options import FinetuneOptions
from ..system.commands import command_line
from ..weights.sources import Word, check_weights
from ._command import WEIGHTS, Command


def share(text: str) -> float:
    """Parse a share of the labels: ``10%`` or ``0.1``."""
    return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)


class FinetuneCommand(Command, FinetuneOptions):
    """Train a task on your own labels: classify, detect or segment.

    Find the classes and splits of a labelled folder (COCO .json, PASCAL VOC .xml or YOLO .txt
    files, label images, or a folder per class), and train a model of mmpretrain, mmdet or
    mmseg on them from WEIGHTS. Prints scores per class and draws predictions. With
    --baseline, --seeds or several shares, train many models and print one table.

    examples:
      python -m mmssprl finetune backbone.pth labelled/ --task detect --epochs 30 --freeze
      python -m mmssprl finetune backbone.pth labelled/ --task classify --baseline random --seeds 3
      python -m mmssprl finetune backbone.pth labelled/ --task classify --share 1% 10% 100%
    """

    weights: str = argument(WEIGHTS, check_weights)
    data: str = argument("folder of labelled images, in any of the layouts above", check_data)
    task: Literal["classify", "detect", "segment"] = required("what to train")
    work_dir: str | None = option(
        "folder of the run",
        chosen="work_dirs/<task>_<DATA>; for many models: work_dirs/<task>_<DATA>_runs",
    )
    baseline: Sequence[Word] = option(
        "also train these, in the same way and with the same backbone", default=()
    )
    seeds: int | None = option("train each N times, by seeds 0 to N - 1", chosen="", least=1)
    keywords = {"share": {"nargs": "+", "type": share, "metavar": "SHARE"}}

    def run(self) -> int:
        """Train one model, or many."""
        shares: Any = self.share or [None]  # argparse gives a list
        asked = replace(typed_options(FinetuneOptions, self), share=shares[0])
        if self.baseline or self.seeds or len(shares) > 1:
            return _finetune_many(self, shares, asked)
        from ..finetuning.plan import FinetunePlanner
        from ..finetuning.start import run_finetuning
        from ..system.environment import freeze_imports

        freeze_imports()
        planner = FinetunePlanner(weights=self.weights, data=self.data, task=self.task, asked=asked)
        outcome = run_finetuning(planner, self.work_dir, say)
        total = ", ".join(f"{name} {value:.1f} %" for name, value in outcome.scores.total.items())
        print(f"\nval, last epoch: {total or 'no score: val has no object that counts'}")
        folder = outcome.checkpoint.parent
        if outcome.best:
            epoch, score, file = outcome.best.values()
            print(f"best epoch: {epoch}, {score:.1f} %, chosen by these images: {folder / file}")
        print("written: " + ", ".join(map(str, outcome.files)))
        print(f"next: {command_line('predict', folder, 'IMAGES', '--out', 'predictions')}")
        return 0


def _finetune_many(
    args: FinetuneCommand, shares: Sequence[float | None], asked: FinetuneOptions
) -> int:
    if args.seed is not None and args.seeds:
        raise UserValueError("--seeds cannot go with --seed; leave one out.")
    from ..experiments.finetune import FinetuneRequest, FineTunings

    data = Path(args.data)
    request = FinetuneRequest(
        weights=args.weights,
        baselines=args.baseline,
        data=args.data,
        task=args.task,
        work_dir=Path(args.work_dir or f"work_dirs/{args.task}_{data.resolve().name}_runs"),
        seeds=range(args.seeds) if args.seeds else [args.seed or 0],
        shares=[*dict.fromkeys(share or 1.0 for share in shares)],
        asked=replace(asked, share=None, resume=False),
    )
    return int(FineTunings(request, say).start() > 0)


class PredictCommand(Command):
    """Use a model of `finetune` on a folder of images or a tar file.

    Write a CSV of scores (classify), a COCO .json (detect) or label images in palette
    colours (segment), with drawn predictions and the list of classes.

    examples:
      python -m mmssprl predict work_dirs/classify_labelled photos/ --out predictions
      python -m mmssprl predict work_dirs/detect_labelled/epoch_12.pth photos/ --out found
    """

    run_dir: str = argument("work dir of `finetune`, or a checkpoint in it", check_checkpoint)
    images: str = argument(
        "folder of images, searched recursively, a tar file or an image", check_images
    )
    out: str = required("new or empty folder for the predictions")
    pictures: int = option("draw the predictions of N evenly spaced images", default=100, least=0)

    def run(self) -> None:
        """Predict the images."""
        from ..finetuning.predict import predict

        say(predict(self.run_dir, self.images, self.out, pictures=self.pictures, log=say))
