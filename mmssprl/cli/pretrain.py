"""Pre-train on your own images.

Pre-train a backbone on all images below a folder, or in a tar file, by SS-PRL or by
one of the methods it is compared with. Sizes, batch, learning rate and the method's
own numbers are chosen from the number of images and devices; the recipe is printed
and written as a config into the work dir. Some timed steps then tell how long the
run will take.

examples:
  python -m mmssprl pretrain photos/ --backbone resnet18 --epochs 100
  python -m mmssprl pretrain photos/ --budget 2h --weights supervised
  python -m mmssprl pretrain photos/ --backbone timm/convnext_pico --dry-run
  python -m mmssprl pretrain photos/ --probe labelled/ --work-dir work_dirs/photos
  python -m mmssprl pretrain photos/ --method mocov2 --work-dir work_dirs/mocov2
  python -m mmssprl pretrain photos/ --work-dir work_dirs/photos
  python -m mmssprl pretrain photos/ --work-dir work_dirs/photos --resume

Ctrl-C, SIGTERM, SIGUSR1, SIGXCPU and a closed terminal stop it after the step under way: it
saves, prints the command that goes on with it, and ends with exit code 75. The second one ends
it at once.
"""

import argparse

from ..console.quiet import quiet_console, say
from ..console.wording import command_line
from ..pretraining.methods import DEFAULT, DEFAULT_VARIANT, PRETRAINED, VARIANTS
from ._options import ValuesAction

_RECIPE_OPTIONS = {
    *("method", "variant", "backbone", "epochs", "budget", "batch_size", "accumulate", "image_px"),
    *("lr", "weights", "gpus", "workers", "max_bad_share", "probe", "seed", "cfg_options"),
    "save_every",
}
"""Handed on only if given, so that the recipe chooses the others and --resume can refuse these."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = parser.add_argument
    add(
        "dir",
        metavar="DIR",
        help="folder of images or of .tar files, searched recursively, or one .tar file",
    )
    add(
        "--method",
        help=f"{', '.join(PRETRAINED)}; swav-small has the highest mean on our photographs, see "
        f"docs/compare.md (default: {DEFAULT})",
    )
    add(
        "--work-dir",
        help="folder of the run; default: work_dirs/pretrain_<DIR>, or -2, -3 ... behind it where "
        "a run on another folder of that name has it",
    )
    add("--epochs", type=int, help="passes over the images; default: chosen")
    add(
        "--budget",
        metavar="TIME",
        help="choose the epochs so that all of it, report included, fits into it: 90m, 2h, 1d",
    )
    add("--batch-size", type=int, help="images per device and backbone pass; default: chosen")
    add(
        "--accumulate",
        type=int,
        help="multiply the batch by this without its memory: the backbone sees a step's images in "
        "so many parts; LARC's lr follows the images of a step, AdamW's only up to 64; for "
        "ssprl, swav and swav-small alone (default: 1)",
    )
    add(
        "--backbone",
        metavar="NAME",
        help="what to pre-train: resnet18, resnet34, resnet50, resnet101, convnext-tiny, "
        "swin-tiny, vit-small, or timm/NAME, a network of timm (default: resnet50)",
    )
    add(
        "--variant",
        choices=[*VARIANTS],
        help="form of ssprl: of the paper, of its released code, or of the paper with six small "
        f"views and 2 of 4 and 3 of 9 patches sampled a step (default: {DEFAULT_VARIANT})",
    )
    add(
        "--weights",
        metavar="FILE",
        help="start from a backbone's weights: a file of ours, of torchvision or of timm, or "
        "supervised (torchvision's ResNet, trained on ImageNet); default: random",
    )
    add("--image-px", type=int, metavar="N", help="side of the image views; default: chosen")
    add("--lr", type=float, help="learning rate after the warm-up; default: chosen")
    add("--gpus", type=int, metavar="N", help="GPUs to train on; default: all")
    add("--workers", type=int, metavar="N", help="reading processes per device; default: chosen")
    add(
        "--save-every",
        metavar="TIME",
        help="the most work that may be lost, as a time (15m, 2h) or in steps (500), beside the "
        "checkpoints after epochs (default: 30m)",
    )
    add(
        "--max-bad-share",
        type=float,
        metavar="X",
        help="share of unreadable images that stops the training (default: 0.01)",
    )
    add(
        "--probe",
        metavar="DATA",
        help="score the frozen features of these labelled images (as of finetune) before, "
        "during and after the training (default: DIR if its folders name classes)",
    )
    add(
        "--no-probe",
        dest="probe",
        action="store_false",
        default=None,
        help="do not, whatever DIR holds",
    )
    add(
        "--set",
        dest="cfg_options",
        nargs="+",
        action=ValuesAction,
        metavar="KEY=VALUE",
        help="replace values of the config that the recipe becomes; a key that no run reads is "
        "refused",
    )
    add("--seed", type=int, help="of all randomness (default: 0)")
    add(
        "--resume",
        action="store_true",
        help="go on with the run in the work dir, with the config that it holds",
    )
    add("--dry-run", action="store_true", help="stop after recipe and forecast; write nothing")
    add("--tensorboard", action="store_true", help="log to TensorBoard as well")
    add("--wandb", action="store_true", help="log to Weights & Biases as well")
    add("--yes", action="store_true", help="start even if it will take more than 12 h on a CPU")
    add(
        "--verbose",
        action="store_true",
        help="show all that packages print, log and warn of: environment, config, hooks",
    )


def run(args: argparse.Namespace) -> int:
    """Train, and say what comes next; 1 if a person at the terminal finds the run too long."""
    with quiet_console(verbose=args.verbose):
        from ..pretraining.start import pretrain

        weights = pretrain(
            args.dir,
            args.work_dir,
            resume=args.resume,
            dry_run=args.dry_run,
            yes=args.yes,
            verbose=args.verbose,
            trackers=["tensorboard"] * args.tensorboard + ["wandb"] * args.wandb,
            log=say,
            **{k: v for k, v in vars(args).items() if k in _RECIPE_OPTIONS and v is not None},
        )
        if args.dry_run:
            print("dry run: nothing was written.")
            return 0
        if weights is None:
            print("not started; nothing was written.")
            return 1
        print(f"next: {command_line('finetune', weights, 'DATA', '--task', 'classify')}")
        print(f"  or: {command_line('probe', weights, 'DATA')}  (DATA: your labelled images)")
        return 0
