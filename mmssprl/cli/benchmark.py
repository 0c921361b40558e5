"""Train and test transfer protocols, and make tables of them: `benchmark`."""

import argparse
import contextlib
import sys
import time
from pathlib import Path

from ..console.arguments import count
from ..console.quiet import say
from ..errors import UserValueError
from ..system.outputs import write_whole
from ._command import Command

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
  python -m mmssprl benchmark --table 1 --data /data work_dirs/*/*_backbone.pth
  python -m mmssprl benchmark --table 4 --dry-run

--table is one of the paper's, with its rows and protocols: 1 linear, 2 semi-supervised, 3 detection
and segmentation, 4 ablations. A file is the row's whose config's name it bears, as training names
it, <config>_backbone.pth, or has that config beside it. Rows without weights stay in the table; of
each is told what pre-trains it, what that takes, and what is missing. At size scenes they are
pre-trained here first; size coco128 takes WEIGHTS only. Tables share a --work-dir; from the second
on, add --resume.

Each line that --commands prints is one task of a Slurm array. Once all tasks have ended, the same
command with --resume instead of --commands collects the results and runs what is missing. Where
'supervised' is trained here, that is the first line, which must end before the others begin.
"""


def _add_benchmark(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "weights",
        nargs="*",
        metavar="WEIGHTS",
        help="backbone weights, training checkpoints, or the words 'random' and 'supervised' "
        "(size paper: torchvision's ImageNet weights; else trained here on all labels)",
    )
    add(
        "--table",
        type=int,
        choices=range(1, 5),
        metavar="N",
        help="a table of the paper, 1 to 4, with what WEIGHTS there are of its rows",
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
    if args.table is None and not args.weights:
        raise UserValueError(
            "what to benchmark must be given, but there are neither WEIGHTS nor --table; give "
            "files, 'random', 'supervised', or a table of the paper, 1 to 4."
        )
    for name in ("protocols", "config"):
        if args.table and getattr(args, name):
            raise UserValueError(
                f"--table has its own protocols and configs, but --{name} was given, too; leave "
                "one of them out."
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
        from ..experiments.benchmark.start import data_folder, find_weights, plan_in_work_dir
        from ..experiments.benchmark.tables import PaperTable
        from ..experiments.execute import announce, jobs_of_machine

        table, names = None, args.protocols
        if args.table:
            table = PaperTable.build(args.table, args.size, args.weights, work_dir)
            names = [protocol.name for protocol in table.protocols]
        plan = plan_in_work_dir(
            work_dir,
            [*table.weights.values()] if table else find_weights(args.weights, args.config),
            size=args.size,
            protocol_names=names,
            data=args.data,
            num_seeds=args.seeds,
            num_gpus=args.gpus,
            resume=args.resume,
            overwrite=args.overwrite,
            dry_run=args.dry_run,
            log=say,
            data_may_lack=table is not None,
        )
        jobs = jobs_of_machine(args.jobs, args.gpus)
        announce("runs", plan.runs, jobs, say, each=args.dry_run)
    if args.commands:
        print("\n".join(plan.shell_lines()))
    if args.commands or (args.dry_run and not table):
        return 0
    results = [] if args.dry_run else plan.execute(jobs)
    failed = any(result.status == "failed" for result in results)
    results += find_results(work_dir, results)
    if table:
        told = table.format(results, data_folder(args.size, args.data))
    else:
        told = format_report(results, args.size)
    if args.dry_run:
        print(told)
        return 0
    files = write_benchmark(results, args.size, work_dir) if results else []
    if table:
        files.insert(0, f"table{args.table}.md")
        write_whole(work_dir / files[0], told)
    print(f"\n{told}")
    print(f"table, all runs, picture: {work_dir}/{{{','.join(files)}}}")
    print(f"{(time.perf_counter() - start) / 60:.1f} min in all")
    return int(failed)


COMMANDS = {"benchmark": Command(_BENCHMARK, _add_benchmark, _benchmark)}
