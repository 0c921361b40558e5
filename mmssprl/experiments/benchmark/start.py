"""A benchmark from its options to its tables: find the rows, get the data there, plan and run."""

from collections.abc import Mapping
from pathlib import Path

from mmengine.config import Config

from ...config.shipped import shipped
from ...datasets.labels import find_labels
from ...datasets.labels.files import data_folder
from ...datasets.scenes.generate import generate_sample
from ...work_dirs import claim, digest
from ..execute import Log, announce, execute_runs, jobs_of_machine, run_all
from ..options import BenchmarkOptions
from ..report import CsvRow, write_tables
from ..run import RunOutcome
from .plan import BenchmarkPlan, plan_benchmark
from .protocols import DATA_PREFIX, Results, TransferRun, Weights, choose_protocols
from .report import format_report, rows_of
from .rows import WORDS, find_weights
from .tables import PaperTable


class Benchmark:
    """A benchmark in its work dir; options are checked before it is claimed.

    ``log`` receives lines about what is planned and done.
    """

    def __init__(self, asked: BenchmarkOptions, log: Log) -> None:
        self.asked, self._log = asked, log
        self.work_dir = Path(asked.work_dir or f"work_dirs/benchmark_{asked.size}")
        self.table = None
        if asked.table:
            self.table = PaperTable.build(asked.table, asked.size, asked.weights, self.work_dir)
        self.rows = [*self.table.weights.values()] if self.table else find_weights(asked.weights)
        self.protocols = choose_protocols(asked.size, asked.protocols)
        if self.table:
            self.protocols = [*self.table.protocols]
        self._data = None if asked.size == "scenes" else Path("data")
        if asked.data:
            self._data = data_of(asked.data)
        self._jobs = jobs_of_machine(asked.jobs, asked.gpus)

    def plan(self) -> BenchmarkPlan:
        """Take the work dir, get the data there, plan the runs and write their configs."""
        asked, found = self.asked, self._data
        settings = {
            "size": asked.size,
            "data": str(found.resolve()) if found else None,
            "weights": {row.name: _identity(row) for row in self.rows},
            "configs": {
                each.name: digest(Config.fromfile(shipped(each.config)).to_dict())
                for each in self.protocols
            },
        }
        if not asked.dry_run:
            claim(self.work_dir, "benchmark.json", "a benchmark", settings)
        scenes = self.work_dir / "scenes"
        folder = found or (scenes if asked.dry_run else generate_sample(self.work_dir))
        plan = plan_benchmark(
            self.rows,
            self.protocols,
            size=asked.size,
            data=folder,
            work_dir=self.work_dir,
            num_seeds=asked.seeds,
            num_gpus=asked.gpus,
            writes=not asked.dry_run,
            data_follow=asked.dry_run and (found is None or self.table is not None),
        )
        usual = DATA_PREFIX[asked.size]
        self._log(f"data: {folder}" + f" (in place of {usual})" * (str(folder) != usual))
        for training in plan.waiting:
            self._log(f"before some of the runs: {training.name}, in {training.folder}")
        if asked.dry_run or asked.commands:
            announce("runs", plan.runs, self._log, each=asked.dry_run)
        return plan

    def run(self, plan: BenchmarkPlan) -> int:
        """Do what is missing of a plan and write the tables; return how many runs have failed."""
        execute_runs(plan.waiting, self._jobs)  # runs that begin with one that fails will say so

        def write(outcomes: Mapping[TransferRun, RunOutcome]) -> tuple[str, list[str]]:
            results = [*outcomes.items()]
            text, name = self.text(results), f"table{self.asked.table or ''}.md"
            files: dict[str, str | list[CsvRow]] = {name: text, "results.csv": rows_of(results)}
            return text, write_tables(self.work_dir, files)

        return run_all("runs", plan.runs, self._jobs, print, write, self.work_dir)

    def text(self, results: Results) -> str:
        """Return the table of some results as Markdown."""
        if self.table:
            return self.table.format(results)
        return format_report(results, self.asked.size)


_TOPS = {"coco", "coco128", "voc", "voc128", "VOCdevkit"}
"""Folders of the data of protocols."""


def data_of(data: str) -> Path:
    """Return the folder of all protocols' data, of which ``data`` may also be one, or its file.

    A data.yaml or COCO .json is read as every command reads it.
    """
    root = data_folder(data)
    if Path(data).is_file():
        root = find_labels(data, "classify", measured=False).root
    if any((root / name).is_dir() for name in _TOPS):
        return root
    return next((each.parent for each in (root, *root.parents) if each.name in _TOPS), root)


def _identity(row: Weights) -> str:
    """Digest what a row begins with: a config, or backbone and content of a file, or the word."""
    if row.pretrained_by:
        return digest(row.pretrained_by.to_dict())
    return digest([row.backbone, row.start * (row.start in WORDS)], row.start)
