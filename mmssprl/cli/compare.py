"""Pre-train many times and make one table of it: `compare`, and `demo`, which is a small one."""

import argparse
from dataclasses import replace
from pathlib import Path

from ..console.arguments import count
from ..console.wording import command_line
from ..experiments.compare.methods import GROUPS
from ..pretraining.methods import BY_KEY
from ._command import Command, add_jobs

_COMPARE = """\
Compare pre-training methods side by side.

Pre-train each method on the training images of a labelled folder, without their
labels, over seeds, for equal epochs, time or FLOPs, and probe its frozen features.
Everything else is equal for all methods: images and their order, first weights of
the backbone, batch, schedule, probe. A command that was stopped resumes where it was;
more methods and seeds may be added later to the same work dir.

examples:
  python -m mmssprl compare
  python -m mmssprl compare --data photos --methods all --seeds 5 --equal time flops --tune
  python -m mmssprl compare --data photos --methods ssprl my_config.py

Without --data, the images are scenes that are generated into the work dir.
"""


def _add_compare(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    methods = f"{', '.join(BY_KEY)}, a group ({', '.join(GROUPS)}), or a config file of your own "
    methods += "with the backbone of the others (default: %(default)s)"
    equal = "what is equal, a table each (default: epochs and time)"
    size = "size of the configs; photos-gpu is a whole ResNet-18 with views of 128 px, the others "
    size += "are for a CPU (default: photos with --data, else scenes)"
    reference = "method that the others are compared with (default: %(default)s)"
    tune = "choose each learning rate of x 1/9 to 9 on a fifth of the training images first"
    dry_run = "train and write nothing; list the runs, and their times once paces are measured"
    defaults = ["random", "swav", "swav-small", "ssprl"]
    add("--data", metavar="DATA", help="labelled folder, as of finetune (default: scenes)")
    add("--methods", nargs="+", default=defaults, metavar="NAME", help=methods)
    add("--seeds", type=count, default=3, metavar="N", help="pre-trainings of each (default: 3)")
    choices = ["epochs", "time", "flops"]
    add("--equal", nargs="+", choices=choices, default=choices[:2], help=equal)
    add("--epochs", type=count, help="length of SS-PRL's run (default: 24 for scenes, else 20)")
    add("--size", choices=["scenes", "photos", "photos-gpu"], help=size)
    add("--reference", default="ssprl", metavar="NAME", help=reference)
    add("--tune", action="store_true", help=tune)
    add("--work-dir", help="default: work_dirs/compare_<size>")
    add_jobs(parser)
    add("--dry-run", action="store_true", help=dry_run)
    parser.set_defaults(batch_size=64)


def _compare(args: argparse.Namespace) -> int:
    from ..experiments.compare.setting import Size
    from ..experiments.compare.start import Comparison, Request
    from ..experiments.execute import jobs_of_machine
    from ..system.one_run import hold_work_dir

    size: Size = args.size or ("photos" if args.data else "scenes")
    jobs = jobs_of_machine(args.jobs)
    request = Request(
        work_dir=Path(args.work_dir or f"work_dirs/compare_{size}"),
        words=args.methods,
        reference=args.reference,
        num_seeds=args.seeds,
        equal=[*dict.fromkeys(args.equal)],
        data=args.data and Path(args.data),
        size=size,
        epochs=args.epochs,
        batch_size=args.batch_size,
        tune=args.tune,
        jobs=jobs if jobs.groups else replace(jobs, threads=1),  # whose CPU time is measured
        command=_command(args),
        dry_run=args.dry_run,
    )
    comparison = Comparison(request)
    with hold_work_dir(request.work_dir, writes=not args.dry_run):
        if args.dry_run:
            comparison.describe()
            return 0
        return int(comparison.run() > 0)


def _command(args: argparse.Namespace) -> str:
    """Return what changes the tables, without the folders of this machine."""
    if args.command == "demo":
        return command_line("demo", "--seeds", args.seeds)
    words = ["compare"]
    if args.data:
        words += ["--data", Path(args.data).name]
    methods = [Path(name).name if name.endswith(".py") else name for name in args.methods]
    words += ["--methods", *methods, "--seeds", args.seeds, "--equal", *args.equal]
    for name in ("epochs", "size", "reference"):
        if getattr(args, name) is not None:
            words += [f"--{name}", getattr(args, name)]
    return command_line(*words, *["--tune"] * args.tune)


_DEMO = """\
See SS-PRL learn on sample data.

Generate scenes, pre-train a small ResNet by SS-PRL and by SwAV for equal time, and
probe them and random weights: `compare` in some minutes on two cores. Table, picture,
logs, configs and weights are left in the work dir.

examples:
  python -m mmssprl demo
  python -m mmssprl demo --work-dir work_dirs/demo --seeds 1

A demo that was stopped resumes where it was when started again with the same work dir.
"""
_AS_DEMO = {
    "data": None,
    "methods": ["random", "swav-small", "ssprl", "ssprl-small-sampled"],
    "batch_size": 32,
    "equal": ["time"],
    "epochs": 6,
    "size": "scenes",
    "reference": "ssprl",
    "tune": False,
    "jobs": None,
    "dry_run": False,
}


def _add_demo(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--work-dir", default="work_dirs/demo", help="default: %(default)s")
    add("--seeds", type=count, default=3, metavar="N", help="runs of each (default: 3)")
    parser.set_defaults(**_AS_DEMO)


COMMANDS = {
    "compare": Command(_COMPARE, _add_compare, _compare),
    "demo": Command(_DEMO, _add_demo, _compare),
}
