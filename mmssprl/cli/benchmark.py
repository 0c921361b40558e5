"""Train and test transfer protocols, and make tables of them: `benchmark`."""

import contextlib
import sys

from ..console.quiet import say
from ..errors import UserValueError
from ..experiments.options import BenchmarkOptions
from ._command import Command

_BENCHMARK = """\
Run the paper's transfer protocols and print its table.

Train and test every protocol on every backbone: linear and semi-supervised
classification, detection, segmentation. The same command resumes; complete runs stay.

examples:
  python -m mmssprl benchmark backbone.pth random --size scenes --seeds 3
  python -m mmssprl benchmark backbone.pth supervised random --data /data --gpus 8
  python -m mmssprl benchmark backbone.pth --protocols linear detection
  python -m mmssprl benchmark --table 1 --data /data work_dirs/*/*_backbone.pth

A file <config>_backbone.pth is the row's of that config. Each line that --commands prints is one
task of a Slurm array; the same command without it then collects the results. docs/benchmark.md
has the tables.
"""


def _benchmark(asked: BenchmarkOptions) -> int:
    if asked.table is None and not asked.weights:
        raise UserValueError("WEIGHTS or --table must be given, but there are neither; give one.")
    if asked.table and asked.protocols:
        raise UserValueError("--table goes without --protocols; leave one of them out.")
    if asked.table and asked.size == "coco128":
        raise UserValueError("--table takes --size paper or scenes, but got coco128; give one.")
    if asked.dry_run and asked.commands:
        raise UserValueError("--commands goes without --dry-run; leave one of them out.")
    with contextlib.ExitStack() as held:
        # mmpretrain prints while it is imported; the commands for a shell stand alone on stdout.
        with contextlib.redirect_stdout(sys.stderr if asked.commands else sys.stdout):
            from ..experiments.benchmark.start import Benchmark
            from ..system.one_run import hold_work_dir

            benchmark = Benchmark(asked, say)
            held.enter_context(hold_work_dir(benchmark.work_dir, writes=not asked.dry_run))
            plan = benchmark.plan()
        if asked.commands:
            print("\n".join(plan.shell_lines()))
        elif asked.dry_run and benchmark.table:
            print(benchmark.text([]))
        elif not asked.dry_run:
            return int(benchmark.run(plan) > 0)
    return 0


COMMANDS = {
    "benchmark": Command(_BENCHMARK, BenchmarkOptions, _benchmark, {"weights": {"nargs": "*"}})
}
