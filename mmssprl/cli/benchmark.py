"""Train and test transfer protocols, and make tables of them: `benchmark`."""

import argparse
import contextlib
import sys
from pathlib import Path

from ..console.arguments import count
from ..console.paths import check_path
from ..console.quiet import say
from ..errors import UserValueError
from ..system.outputs import write_whole
from ._command import Command, add_jobs

_BENCHMARK = """\
Run the paper's transfer protocols and print its table.

Train and test every protocol on every backbone: linear and semi-supervised
multi-label classification, detection and instance segmentation, semantic
segmentation. Data and packages are checked first. Each run keeps its config, log,
checkpoint and metrics; the same command resumes, and what is complete is never run again.

examples:
  python -m mmssprl benchmark backbone.pth random --size scenes --seeds 3
  python -m mmssprl benchmark backbone.pth supervised random --data /data --gpus 8
  python -m mmssprl benchmark backbone.pth --protocols linear detection
  python -m mmssprl benchmark --table 1 --data /data work_dirs/*/*_backbone.pth

--table is one of the paper's: 1 linear, 2 semi-supervised, 3 detection and segmentation, 4
ablations. A file <config>_backbone.pth is the row's of that config. Of rows without weights is told
what pre-trains them; at size scenes they are pre-trained here first. Tables share a --work-dir.

Each line that --commands prints is one task of a Slurm array; the same command without it then
collects the results. A first line that trains 'supervised' must end before the others begin.
"""


def _add_benchmark(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    weights = "backbone weights, training checkpoints, 'random', or 'supervised' (size paper: "
    weights += "torchvision's ImageNet weights; else trained here on all labels)"
    size = "the paper's data, or for CPUs: generated scenes, 100 + 100 real images (default: paper)"
    protocols = "linear, semisup, detection, segmentation, or linear-coco, linear-voc, semisup-1, "
    protocols += "semisup-10, semisup-100 (default: all of the size)"
    data = "folder with coco/ and VOCdevkit/, with coco/ and voc/ of `mmssprl scenes`, or with "
    data += "coco128/ and voc128/ (default: data; scenes are generated into the work dir)"
    gpus = "GPUs of each detection and segmentation run of size paper (default: %(default)s)"
    add("weights", nargs="*", metavar="WEIGHTS", help=weights)
    add("--table", type=int, choices=range(1, 5), metavar="N", help="a table of the paper, 1 to 4")
    add("--size", choices=["paper", "scenes", "coco128"], default="paper", help=size)
    add("--protocols", nargs="+", metavar="NAME", help=protocols)
    add("--data", metavar="DATA", help=data)
    add("--seeds", type=count, default=1, metavar="N", help="trainings of each (default: 1)")
    add("--work-dir", help="default: work_dirs/benchmark_<size>")
    add_jobs(parser)
    add("--gpus", type=count, default=1, metavar="N", help=gpus)
    add = parser.add_mutually_exclusive_group().add_argument
    add("--dry-run", action="store_true", help="tell what is planned; write nothing")
    add("--commands", action="store_true", help="write configs, print a shell command of each run")


def _benchmark(args: argparse.Namespace) -> int:
    if args.table is None and not args.weights:
        raise UserValueError("WEIGHTS or --table must be given, but there are neither; give one.")
    if args.table and args.protocols:
        raise UserValueError("--table goes without --protocols; leave one of them out.")
    if args.table and args.size == "coco128":
        raise UserValueError("--table takes --size paper or scenes, but got coco128; give one.")
    work_dir = Path(args.work_dir or f"work_dirs/benchmark_{args.size}")
    with contextlib.ExitStack() as held:
        return _run_benchmark(args, work_dir, held)


def _run_benchmark(args: argparse.Namespace, work_dir: Path, held: contextlib.ExitStack) -> int:
    # mmpretrain prints while it is imported; the commands for a shell stand alone on stdout.
    with contextlib.redirect_stdout(sys.stderr if args.commands else sys.stdout):
        from ..experiments.benchmark.protocols import choose_protocols, find_results
        from ..experiments.benchmark.report import format_report, write_benchmark
        from ..experiments.benchmark.start import find_weights, plan_in_work_dir
        from ..experiments.benchmark.tables import PaperTable
        from ..experiments.execute import announce, jobs_of_machine
        from ..system.one_run import hold_work_dir

        table, names = None, args.protocols
        if args.table:
            table = PaperTable.build(args.table, args.size, args.weights, work_dir)
            names = [protocol.name for protocol in table.protocols]
        rows = [*table.weights.values()] if table else find_weights(args.weights)
        choose_protocols(args.size, names)
        if args.data:
            check_path(args.data, "data", folder="the folder of the data")
        held.enter_context(hold_work_dir(work_dir, writes=not args.dry_run))
        plan = plan_in_work_dir(
            work_dir,
            rows,
            size=args.size,
            protocol_names=names,
            data=args.data,
            num_seeds=args.seeds,
            num_gpus=args.gpus,
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
    told = table.format(results) if table else format_report(results, args.size)
    if args.dry_run:
        print(told)
        return 0
    files = write_benchmark(results, args.size, work_dir) if results else []
    if table:
        files.insert(0, f"table{args.table}.md")
        write_whole(work_dir / files[0], told)
    print(f"\n{told}")
    print(f"table, all runs: {work_dir}/{{{','.join(files)}}}")
    return int(failed)


COMMANDS = {"benchmark": Command(_BENCHMARK, _add_benchmark, _benchmark)}
