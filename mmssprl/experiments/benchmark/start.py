"""The `benchmark` command: find rows and data, plan, run and write the tables."""

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
from ..report import Files
from ..run import RunOutcome
from .plan import BenchmarkPlan, plan_benchmark
from .protocols import DATA_PREFIX, Results, TransferRun, Weights, choose_protocols
from .report import format_report, rows_of
from .rows import WORDS, find_weights
from .tables import PaperTable


class Benchmark:
    """A benchmark in its work dir; the options are checked before the work dir is claimed."""

    def __init__(self, asked: BenchmarkOptions, log: Log) -> None:
        self.asked, self._log = asked, log
        self.work_dir = Path(asked.work_dir or f"work_dirs/benchmark_{asked.size}")
        self.table = None
        if asked.table:
            self.table = PaperTable.build(asked.table, asked.size, asked.weights)
            self.rows = [*self.table.weights.values()]
            self.protocols = [*self.table.protocols]
        else:
            self.rows = find_weights(asked.weights)
            self.protocols = choose_protocols(asked.size, asked.protocols)
        self._data = None if asked.size == "scenes" else Path("data")
        if asked.data:
            self._data = data_of(asked.data)
        self._jobs = jobs_of_machine(asked.jobs, asked.gpus)

    def plan(self) -> BenchmarkPlan:
        """Claim the work dir, generate scenes if needed, plan the runs and write their configs."""
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
            asked,
            data=folder,
            work_dir=self.work_dir,
            data_follow=asked.dry_run and (found is None or self.table is not None),
        )
        prefix = DATA_PREFIX[asked.size]
        self._log(f"data: {folder}" + f" (in place of {prefix})" * (str(folder) != prefix))
        for training in plan.waiting:
            self._log(f"first, for some of the runs: {training.name}, in {training.folder}")
        if asked.dry_run or asked.commands:
            announce("runs", plan.runs, self._log, each=asked.dry_run)
        return plan

    def run(self, plan: BenchmarkPlan) -> int:
        """Do the missing runs of a plan, and write the tables; return how many runs failed."""
        execute_runs(plan.waiting, self._jobs)  # if one fails, the runs that start from it do
        return run_all("runs", plan.runs, self._jobs, print, self._tables, self.work_dir)

    def _tables(self, outcomes: Mapping[TransferRun, RunOutcome]) -> Files:
        results = [*outcomes.items()]
        name = f"table{self.asked.table or ''}.md"
        return {name: self.text(results), "results.csv": rows_of(results)}

    def text(self, results: Results) -> str:
        """Return the results as a table in Markdown."""
        if self.table:
            return self.table.format(results)
        return format_report(results, self.asked.size)


_TOPS = {"coco", "coco128", "voc", "voc128", "VOCdevkit"}
"""Top folders of the protocols' data."""


def data_of(data: str) -> Path:
    """Return the folder with the data of all protocols.

    ``data`` may be that folder, the folder of one protocol, or its data.yaml or COCO .json.
    """
    root = data_folder(data)
    if Path(data).is_file():
        root = find_labels(data, "classify", measured=False).root
    if any((root / name).is_dir() for name in _TOPS):
        return root
    return next((each.parent for each in (root, *root.parents) if each.name in _TOPS), root)


def _identity(row: Weights) -> str:
    """Digest the start of a row: a config, or a backbone and the content of a file, or a word."""
    if row.pretrained_by:
        return digest(row.pretrained_by.to_dict())
    return digest([row.backbone, row.start * (row.start in WORDS)], row.start)
