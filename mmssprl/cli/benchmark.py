"""Run the paper's transfer protocols and print its table.

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

import argparse
import contextlib
import sys
import time
from pathlib import Path

from ..console.quiet import say
from ..errors import UserValueError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
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
    add("--seeds", type=int, default=1, metavar="N", help="trainings of each (default: 1)")
    add("--work-dir", help="default: work_dirs/benchmark_<size>")
    add(
        "--jobs",
        type=int,
        help="runs at a time, spread over the GPUs (default: one per --gpus GPUs, else one "
        "per core)",
    )
    add(
        "--gpus",
        type=int,
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


def run(args: argparse.Namespace) -> int:
    """Plan, run what is missing, and report; 1 if a run failed."""
    from ..system.one_run import hold_work_dir

    for name in ("seeds", "gpus", "jobs"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise UserValueError(f"--{name} must be at least 1, but got {value}.")
    if args.commands and args.overwrite:
        raise UserValueError(
            "--commands deletes nothing, but --overwrite was given, too; leave one of them out."
        )
    work_dir = Path(args.work_dir or f"work_dirs/benchmark_{args.size}")
    with hold_work_dir(work_dir, writes=not args.dry_run):
        return _run(args, work_dir)


def _run(args: argparse.Namespace, work_dir: Path) -> int:
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
