"""Run many trainings and make one table of them: `compare` and `benchmark`."""

import argparse
import contextlib
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..console.arguments import count
from ..console.quiet import quiet_console, say
from ..console.wording import command_line
from ..errors import UserValueError
from ..experiments.compare.methods import GROUPS
from ..pretraining.methods import BY_KEY
from ._command import Command

if TYPE_CHECKING:
    from ..experiments.compare.plan import Budget

_COMPARE = """\
Compare pre-training methods side by side.

Pre-train each method on the training images of a labelled folder, without their
labels, over seeds, for equal epochs, time or FLOPs, and probe its frozen features.
Everything else is equal for all methods: images and their order, first weights of
the backbone, batch, schedule, probe. A command that was stopped goes on where it was;
more methods and seeds may be added later to the same work dir.

examples:
  python -m mmssprl compare
  python -m mmssprl compare --data photos --methods random swav-small ssprl --seeds 5
  python -m mmssprl compare --data photos --methods all --seeds 5 --budget time flops --tune
  python -m mmssprl compare --data photos --methods ablations --seeds 3 --dry-run
  python -m mmssprl compare --data photos --methods ssprl my_config.py --held-out

Without --data, the images are scenes that are generated into the work dir.
"""

_BUDGETS: tuple["Budget", ...] = ("epochs", "time", "flops")


def _add_compare(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--data", metavar="DIR", help="labelled folder, as of finetune (default: scenes)")
    add(
        "--methods",
        nargs="+",
        default=["random", "swav", "swav-small", "ssprl"],
        metavar="NAME",
        help=f"{', '.join(BY_KEY)}, a group ({', '.join(GROUPS)}), or a config file of your own "
        "with the backbone of the others (default: %(default)s)",
    )
    add("--seeds", type=int, default=3, metavar="N", help="pre-trainings of each (default: 3)")
    add(
        "--budget",
        nargs="+",
        choices=[*_BUDGETS, "both"],
        default=["both"],
        help="what is equal, a table each; both: epochs and time (default: both)",
    )
    add("--epochs", type=int, help="length of SS-PRL's training (default: 24 for scenes, else 20)")
    add(
        "--size",
        choices=["scenes", "photos", "photos-gpu"],
        help="size of the configs; photos-gpu is a whole ResNet-18 with views of 128 px, the "
        "others are for a CPU (default: photos with --data, else scenes)",
    )
    add("--batch-size", type=count, default=64, help="images of a step (default: %(default)s)")
    add(
        "--reference",
        default="ssprl",
        metavar="NAME",
        help="method that the others are compared with (default: %(default)s)",
    )
    add(
        "--tune",
        action="store_true",
        help="choose each learning rate of x 1/9 to 9 on a fifth of the training images first",
    )
    add(
        "--held-out",
        action="store_true",
        help="pre-train on four fifths of the training images and score the last fifth in place of "
        "the test images: for choices, which the test images must not see",
    )
    add("--work-dir", help="default: work_dirs/compare_<size>")
    add(
        "--jobs",
        type=count,
        help="runs at a time, spread over the GPUs (default: one per GPU, else one per core)",
    )
    add(
        "--dry-run",
        action="store_true",
        help="train and write nothing; list the runs and how long they take, once the paces are "
        "measured",
    )


def _compare(args: argparse.Namespace) -> int:
    with quiet_console():
        return _run_compare(args)


def _run_compare(args: argparse.Namespace) -> int:
    from ..experiments.compare.setting import Size
    from ..experiments.compare.start import Comparison, Request
    from ..experiments.execute import jobs_of_machine
    from ..system.one_run import hold_work_dir

    size: Size = args.size or ("photos" if args.data else "scenes")
    jobs = jobs_of_machine(args.jobs)
    budgets = {*args.budget, *(("epochs", "time") if "both" in args.budget else ())}
    request = Request(
        work_dir=Path(args.work_dir or f"work_dirs/compare_{size}"),
        words=args.methods,
        reference=args.reference,
        num_seeds=args.seeds,
        budgets=[name for name in _BUDGETS if name in budgets],
        data=args.data and Path(args.data),
        size=size,
        epochs=args.epochs,
        batch_size=args.batch_size,
        tune=args.tune,
        held_out=args.held_out,
        jobs=jobs if jobs.groups else replace(jobs, threads=1),  # whose CPU time is measured
        command=_command(args),
        dry_run=args.dry_run,
    )
    with hold_work_dir(request.work_dir, writes=not args.dry_run):
        comparison = Comparison(request)
        if args.dry_run:
            comparison.describe()
            return 0
        return int(comparison.run() > 0)


def _command(args: argparse.Namespace) -> str:
    """Return what changes the tables, without the folders of this machine."""
    words = ["compare"]
    if args.data:
        words += ["--data", Path(args.data).name]
    methods = [Path(name).name if name.endswith(".py") else name for name in args.methods]
    words += ["--methods", *methods, "--seeds", args.seeds, "--budget", *args.budget]
    for name in ("epochs", "size", "batch_size", "reference"):
        if getattr(args, name) is not None:
            words += [f"--{name.replace('_', '-')}", getattr(args, name)]
    return command_line(*words, *["--tune"] * args.tune, *["--held-out"] * args.held_out)


_BENCHMARK = """\
Run the paper's transfer protocols and print its table.

Train and test every protocol on every backbone: linear and semi-supervised
multi-label classification, detection and instance segmentation, semantic
segmentation. Data and packages are checked first. Each run keeps its config, log,
checkpoint and metrics; what is complete is never run again.

examples:
  python -m mmssprl benchmark backbone.pth random --size scenes --seeds 3
  python -m mmssprl benchmark backbone.pth supervised random --data /data --gpus 8
  python -m mmssprl benchmark backbone.pth --protocols linear detection --resume
  python -m mmssprl benchmark backbone.pth random --seeds 3 --commands

Each line that --commands prints is one task of a Slurm array. Once all tasks have ended, the same
command with --resume instead of --commands collects the results and runs what is missing. Where
'supervised' is trained here, that is the first line, which must end before the others begin.
"""


def _add_benchmark(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "weights",
        nargs="+",
        metavar="WEIGHTS",
        help="backbone weights, training checkpoints, or the words 'random' and 'supervised' "
        "(size paper: torchvision's ImageNet weights; else trained here on all labels)",
    )
    add(
        "--size",
        choices=["paper", "scenes", "coco128"],
        default="paper",
        help="size of the data: the paper's, generated scenes, or 100 + 100 real images; the "
        "last two are for CPUs (default: %(default)s)",
    )
    add(
        "--protocols",
        nargs="+",
        metavar="NAME",
        help="linear, semisup, detection, segmentation, or linear-coco, linear-voc, semisup-1, "
        "semisup-10, semisup-100 (default: all of the size)",
    )
    add(
        "--data",
        metavar="DIR",
        help="folder with coco/ and VOCdevkit/, with coco/ and voc/ of `mmssprl scenes`, or with "
        "coco128/ and voc128/ (default: data; scenes are generated into the work dir)",
    )
    add(
        "--config",
        help="config with model.backbone of the weights (default: the one beside each file, or "
        "the protocols' own ResNet)",
    )
    add("--seeds", type=count, default=1, metavar="N", help="trainings of each (default: 1)")
    add("--work-dir", help="default: work_dirs/benchmark_<size>")
    add(
        "--jobs",
        type=count,
        help="runs at a time, spread over the GPUs (default: one per --gpus GPUs, else one "
        "per core)",
    )
    add(
        "--gpus",
        type=count,
        default=1,
        help="GPUs of each detection and segmentation run of size paper (default: %(default)s)",
    )
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--resume", action="store_true", help="go on with what the work dir holds")
    group.add_argument(
        "--overwrite", action="store_true", help="delete the runs that the work dir holds"
    )
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--dry-run", action="store_true", help="tell what is planned; write nothing")
    group.add_argument(
        "--commands",
        action="store_true",
        help="write the configs and print one line of shell commands for each run",
    )


def _benchmark(args: argparse.Namespace) -> int:
    from ..system.one_run import hold_work_dir

    if args.commands and args.overwrite:
        raise UserValueError(
            "--commands deletes nothing, but --overwrite was given, too; leave one of them out."
        )
    work_dir = Path(args.work_dir or f"work_dirs/benchmark_{args.size}")
    with hold_work_dir(work_dir, writes=not args.dry_run):
        return _run_benchmark(args, work_dir)


def _run_benchmark(args: argparse.Namespace, work_dir: Path) -> int:
    start = time.perf_counter()
    # mmpretrain prints while it is imported; the commands for a shell stand alone on stdout.
    with contextlib.redirect_stdout(sys.stderr if args.commands else sys.stdout):
        from ..experiments.benchmark.protocols import find_results
        from ..experiments.benchmark.report import format_report, write_benchmark
        from ..experiments.benchmark.start import plan_in_work_dir
        from ..experiments.execute import announce, jobs_of_machine

        plan = plan_in_work_dir(
            work_dir,
            args.weights,
            size=args.size,
            config=args.config,
            protocol_names=args.protocols,
            data=args.data,
            num_seeds=args.seeds,
            num_gpus=args.gpus,
            resume=args.resume,
            overwrite=args.overwrite,
            dry_run=args.dry_run,
            log=say,
        )
        jobs = jobs_of_machine(args.jobs, args.gpus)
        announce("runs", plan.runs, jobs, say, each=args.dry_run)
    if args.commands:
        print("\n".join(plan.shell_lines()))
    if args.commands or args.dry_run:
        return 0
    results = plan.execute(jobs)
    failed = any(result.status == "failed" for result in results)
    results += find_results(work_dir, results)
    files = write_benchmark(results, args.size, work_dir)
    print(f"\n{format_report(results, args.size)}")
    print(f"table, all runs, picture: {work_dir}/{{{','.join(files)}}}")
    print(f"{(time.perf_counter() - start) / 60:.1f} min in all")
    return int(failed)


COMMANDS = {
    "compare": Command(_COMPARE, _add_compare, _compare),
    "benchmark": Command(_BENCHMARK, _add_benchmark, _benchmark),
}
