"""Train and test the transfer protocols and print their tables: `benchmark`."""

import contextlib
import sys

from ..console.quiet import say
from ..errors import UserValueError
from ..experiments.options import BenchmarkOptions
from ._command import Command

_BENCHMARK = """\
Run the paper's transfer protocols and print its table.

Train and test every protocol on every backbone: linear and semi-supervised
classification, detection, segmentation. The same command resumes and keeps finished runs.

examples:
  python -m mmssprl benchmark backbone.pth random --size scenes --seeds 3
  python -m mmssprl benchmark backbone.pth supervised random --data /data --gpus 8
  python -m mmssprl benchmark backbone.pth --protocols linear detection
  python -m mmssprl benchmark --table 1 --data /data work_dirs/*/*_backbone.pth

A file <config>_backbone.pth fills the row of that config. Each line that --commands prints is one
task of a Slurm array; run the same command without it to collect the results. The tables are
in docs/benchmark.md.
"""


def _benchmark(asked: BenchmarkOptions) -> int:
    if asked.table is None and not asked.weights:
        raise UserValueError("WEIGHTS or --table must be given, but got neither; give one.")
    if asked.table and asked.protocols:
        raise UserValueError("--table cannot go with --protocols; leave one out.")
    if asked.table and asked.size == "coco128":
        raise UserValueError("--table takes --size paper or scenes, but got coco128; give one.")
    if asked.dry_run and asked.commands:
        raise UserValueError("--commands cannot go with --dry-run; leave one out.")
    with contextlib.ExitStack() as held:
        # mmpretrain prints during its import; --commands prints nothing but commands to stdout.
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
