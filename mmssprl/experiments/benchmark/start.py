"""The `benchmark` command: find rows and data, plan, run and write the tables."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mmengine.config import Config

from ...config.shipped import shipped
from ...datasets.labels import find_labels
from ...datasets.labels.files import data_folder
from ...datasets.scenes.generate import generate_sample
from ...runs.work_dirs import digest
from ...system.locks import hold_work_dir
from ..execute import Log, announce, execute_runs, jobs_of_machine
from ..experiment import Experiment
from ..options import BenchmarkOptions
from ..report import Files
from ..run import RunOutcome
from .data import digests_of_data
from .plan import BenchmarkPlan, BenchmarkPlanner
from .protocols import (
    DATA_PREFIX,
    WORDS,
    Results,
    TransferRun,
    WeightsRow,
    choose_protocols,
    find_weights,
)
from .report import format_report, rows_of
from .tables import PaperTable


class Benchmark(Experiment[TransferRun]):
    """A benchmark in its work dir; the options are checked before the work dir is claimed."""

    title = "a benchmark"
    marker = "benchmark.json"

    def __init__(self, asked: BenchmarkOptions, log: Log) -> None:
        work_dir = Path(asked.work_dir or f"work_dirs/benchmark_{asked.size}")
        super().__init__(work_dir, jobs_of_machine(asked.jobs, asked.gpus), log)
        self.asked = asked
        self.planned = BenchmarkPlan(())
        self.table = None
        if asked.table:
            self.table = PaperTable.build(asked.table, asked.size, asked.weights)
            self.rows = [*self.table.weights.values()]
            self.protocols = self.table.protocols
            if self.table.left_out:
                names = ", ".join(self.table.left_out)
                log(f"left out, of no row of the tables (see --help): {names}")
        else:
            self.rows = find_weights(asked.weights)
            self.protocols = choose_protocols(asked.size, asked.protocols)
        usual = None if asked.size == "scenes" else Path("data")
        self._data = data_of(asked.data) if asked.data else usual

    def settings(self) -> dict[str, Any]:
        """Return size and data, and digests of weights, protocols and given data."""
        configs = {}
        for each in self.protocols:
            configs[each.name] = Config.fromfile(shipped(each.config))
        found = {
            "size": self.asked.size,
            "data": str(self._data.resolve()) if self._data else None,
            "weights": {row.name: _identity(row) for row in self.rows},
            "configs": {name: digest(cfg.to_dict()) for name, cfg in configs.items()},
        }
        if self._data:
            found |= digests_of_data(configs, DATA_PREFIX[self.asked.size], self._data)
        return found

    def plan(self, *, writes: bool = True) -> None:
        """Claim the work dir, generate scenes if needed, plan the runs and write their configs."""
        super().plan(writes=writes)
        found = self._data
        folder = found or self.work_dir / "scenes"
        if writes and found is None:
            folder = generate_sample(self.work_dir)
        may_lack_data = not writes and (found is None or self.table is not None)
        self.planned = self.plan_runs(folder, writes=writes, may_lack_data=may_lack_data)

        usual = DATA_PREFIX[self.asked.size]
        in_place_of = "" if str(folder) == usual else f" (in place of {usual})"
        self.log(f"data: {folder}{in_place_of}")
        for training in self.planned.waiting:
            self.log(f"first, for some of the runs: {training.name}, in {training.folder}")

    def plan_runs(
        self, data: Path, *, writes: bool = True, may_lack_data: bool = False
    ) -> BenchmarkPlan:
        """Plan the runs on a folder of all data, and write their configs."""
        planner = BenchmarkPlanner(self.asked, self.work_dir, data, may_lack_data)
        plan = planner.plan(self.protocols, self.rows)
        if writes:
            planner.write_configs()
        return plan

    def write_commands(self) -> list[str]:
        """Plan, and return a line for a shell for each run."""
        with hold_work_dir(self.work_dir):
            self.plan()
            announce(self.kind, self.runs(), self.log)
            return self.planned.shell_lines()

    def describe(self) -> None:
        """Log what ``run`` would do, with the paper's table."""
        super().describe()
        if self.table:
            self.log(self.text([]))

    def run(self) -> int:
        """Do the missing runs of the plan, and write the tables; return how many failed."""
        # If one fails, those that start from it do.
        execute_runs(self.planned.waiting, self.jobs, self.log)
        return super().run()

    def runs(self) -> tuple[TransferRun, ...]:
        """Return the planned runs."""
        return self.planned.runs

    def tables(self, outcomes: Mapping[TransferRun, RunOutcome]) -> Files:
        """Return the table in Markdown, and a CSV of all runs."""
        results = [*outcomes.items()]
        name = f"table{self.asked.table or ''}.md"
        return {name: self.text(results), "results.csv": rows_of(results)}

    def text(self, results: Results) -> str:
        """Return the results as a table in Markdown."""
        return self.table.format(results) if self.table else format_report(results, self.asked.size)


_TOPS = {"coco", "coco128", "voc", "voc128", "VOCdevkit"}
"""Top folders of the protocols' data."""


def data_of(data: str) -> Path:
    """Return the folder of all data, given that, or a protocol's, its data.yaml or its .json."""
    root = data_folder(data)
    if Path(data).is_file():
        root = find_labels(data, "classify", measured=False).root
    if any((root / name).is_dir() for name in _TOPS):
        return root
    return next((each.parent for each in (root, *root.parents) if each.name in _TOPS), root)


def _identity(row: WeightsRow) -> str:
    """Digest the start of a row: a config, or a backbone and the content of a file, or a word."""
    if row.pretrained_by:
        return digest(row.pretrained_by.to_dict())
    word = row.start if row.start in WORDS else ""
    return digest([row.backbone, word], row.start)
