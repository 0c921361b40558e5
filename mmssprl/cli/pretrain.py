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
from dataclasses import fields

from ..console.options import add_options
from ..console.quiet import quiet_console, say
from ..console.wording import command_line
from ..pretraining.options import PretrainOptions
from ._options import ValuesAction


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = parser.add_argument
    add(
        "images",
        metavar="IMAGES",
        help="folder of images or of .tar files, searched recursively, or one .tar file",
    )
    add(
        "--work-dir",
        help="folder of the run (default: work_dirs/pretrain_<IMAGES>, or -2, -3 ... behind it "
        "where a run on another folder of that name has it)",
    )
    add_options(parser, PretrainOptions, cfg_options={"nargs": "+", "action": ValuesAction})
    add(
        "--no-probe",
        dest="probe",
        action="store_false",
        default=None,
        help="do not, whatever IMAGES holds",
    )


def run(args: argparse.Namespace) -> int:
    """Train, and say what comes next; 1 if a person at the terminal finds the run too long."""
    with quiet_console(verbose=args.verbose):
        from ..pretraining.start import pretrain

        names = [each.name for each in fields(PretrainOptions)]
        options = {name: getattr(args, name) for name in names}
        weights = pretrain(args.images, args.work_dir, **options, log=say)
        if args.dry_run:
            print("dry run: nothing was written.")
            return 0
        if weights is None:
            print("not started; nothing was written.")
            return 1
        print(f"next: {command_line('finetune', weights, 'DATA', '--task', 'classify')}")
        print(f"  or: {command_line('probe', weights, 'DATA')}  (DATA: your labelled images)")
        return 0
