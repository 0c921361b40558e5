"""Train and test the transfer protocols and print their tables: `benchmark`."""

import contextlib
import sys

from ..console.quiet import say
from ..errors import UserValueError
from ..experiments.options import BenchmarkOptions
from ._command import Command


class BenchmarkCommand(Command, BenchmarkOptions):
    """Run the paper's transfer protocols and print its table.

    Train and test every protocol on every backbone: linear and semi-supervised
    classification, detection, segmentation. The same command resumes and keeps finished runs.

    examples:
      python -m mmssprl benchmark backbone.pth random --size scenes --seeds 3
      python -m mmssprl benchmark backbone.pth --protocols linear detection --data /data --gpus 8
      python -m mmssprl benchmark --table 1 --data /data work_dirs/*/*_backbone.pth

    A file <config>_backbone.pth fills the row of that config; files of no row are left out. Score
    them without --table. Each line that --commands prints is one task of a Slurm array; run the
    same command without it to collect the results. docs/benchmark.md describes the tables.
    """

    keywords = {"weights": {"nargs": "*"}}

    def run(self) -> int:
        """Run the protocols, or list what they would run."""
        refused = {
            "give WEIGHTS or --table.": self.table is None and not self.weights,
            "--table cannot go with --protocols.": self.table and self.protocols,
            "--table cannot go with --size coco128.": self.table and self.size == "coco128",
            "--commands cannot go with --dry-run.": self.dry_run and self.commands,
        }
        for reason in filter(refused.get, refused):
            raise UserValueError(reason)
        # mmpretrain prints during its import; --commands prints only commands to stdout.
        with contextlib.redirect_stdout(sys.stderr if self.commands else sys.stdout):
            from ..experiments.benchmark.start import Benchmark

            benchmark = Benchmark(self, say)
            if not self.commands:
                return int(benchmark.start(dry_run=self.dry_run) > 0)
            lines = benchmark.write_commands()
        print("\n".join(lines))
        return 0
