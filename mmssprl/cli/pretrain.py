"""Pre-train on your own images.

Pre-train a backbone on all images below a folder, or in a tar file. Sizes, batch,
learning rate, prototypes, queues and freezing are chosen from the number of images
and devices; the recipe is printed and written as a config into the work dir. Some
timed steps then tell how long the run will take.

examples:
  python -m mmssprl pretrain photos/ --backbone resnet18 --epochs 100
  python -m mmssprl pretrain photos/ --work-dir work_dirs/photos
  python -m mmssprl pretrain photos/ --work-dir work_dirs/photos --resume
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..console import quiet_console
from ..errors import UserValueError
from ..outputs import write_whole

if TYPE_CHECKING:
    from mmengine.config import Config

_RECIPE_OPTIONS = ("epochs", "batch_size", "accumulate", "backbone", "variant", "seed")
"""None unless given, so that --resume can refuse them."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = parser.add_argument
    add(
        "dir",
        metavar="DIR",
        help="folder of images or of .tar files, searched recursively, or one .tar file",
    )
    add("--work-dir", help="folder of the run; default: work_dirs/pretrain_<DIR>")
    add("--epochs", type=int, help="passes over the images; default: chosen")
    add("--batch-size", type=int, help="images per device and backbone pass; default: chosen")
    add(
        "--accumulate",
        type=int,
        help="multiply the batch by this without its memory: the backbone sees a step's images in "
        "so many parts; LARC's lr follows the images of a step, AdamW's only up to 64 (default: 1)",
    )
    add(
        "--backbone",
        choices=["resnet18", "resnet50", "vit-small", "swin-tiny"],
        help="what to pre-train (default: resnet50)",
    )
    add(
        "--variant",
        choices=["paper", "released"],
        help="form of the method: of the paper, or of its released code (default: paper)",
    )
    add("--seed", type=int, help="of all randomness (default: 0)")
    add(
        "--resume",
        action="store_true",
        help="go on with the run in the work dir, with the config that it holds",
    )
    add("--yes", action="store_true", help="start even if it will take more than 12 h on a CPU")
    add(
        "--verbose",
        action="store_true",
        help="show what otherwise only the log file gets: environment, config, hooks, all warnings",
    )


def run(args: argparse.Namespace) -> int:
    """Choose the recipe, forecast the run, write the config, train, and say what comes next."""
    with quiet_console(verbose=args.verbose):
        return _run(args)


def _run(args: argparse.Namespace) -> int:
    from ..pretraining import start

    given = {k: v for k, v in vars(args).items() if k in _RECIPE_OPTIONS and v is not None}
    work_dir = Path(args.work_dir or f"work_dirs/pretrain_{Path(args.dir).resolve().name}")
    if args.resume:
        config = start.config_of_run(work_dir, args.dir)
        if given:
            flags = ", ".join("--" + name.replace("_", "-") for name in _RECIPE_OPTIONS)
            raise UserValueError(
                f"--resume takes the recipe from {config}; leave {flags} out, or start a new run."
            )
    else:
        start.refuse_used(work_dir)
        cfg = _accepted_config(args, given)
        if cfg is None:
            print("not started; nothing was written.")
            return 1
        config = work_dir / f"ssprl_{args.backbone or 'resnet50'}.py"
        work_dir.mkdir(parents=True, exist_ok=True)
        write_whole(config, cfg.pretty_text)
        print(f"config: {config}")
    status = start.train(config, work_dir, resume=args.resume, verbose=args.verbose)
    if status:
        return status
    weights = work_dir / f"{config.stem}_backbone.pth"
    print(f"backbone weights: {weights}")
    print(f"next: python -m mmssprl probe {weights} DATA  (DATA in COCO or VOC layout)")
    return 0


def _accepted_config(args: argparse.Namespace, given: "dict[str, Any]") -> "Config | None":
    """Say what the run will be and take; None if it is too long for the person at the terminal."""
    from ..pretraining import forecast, start
    from ..pretraining.config import describe, make_config

    cfg, recipe, images = make_config(args.dir, **given)
    print(describe(recipe, args.dir))
    for text in images.warnings:
        print(f"warning: {text}")
    print("timing some steps ...", flush=True)
    expected = start.forecast_run(cfg, recipe)
    print(expected.line, flush=True)
    return cfg if forecast.may_start(expected, yes=args.yes) else None
