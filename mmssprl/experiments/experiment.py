"""An experiment: many runs in one work dir, with a plan and a table."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic

from ..runs.work_dirs import claim
from ..system.locks import hold_work_dir
from .execute import Jobs, Log, R, announce, execute_runs
from .report import Files, write_files
from .run import RunOutcome


class Experiment(ABC, Generic[R]):
    """Many runs and their tables. A subclass checks its options before it is made.

    Attributes:
        title: What it is in messages, with an article.
        marker: File in the work dir with ``settings``.
        kind: What its runs are in messages.
    """

    title: ClassVar[str]
    marker: ClassVar[str]
    kind: ClassVar[str] = "runs"

    def __init__(self, work_dir: Path, jobs: Jobs, log: Log) -> None:
        self.work_dir = work_dir
        self.jobs = jobs
        self.log = log

    def start(self, *, dry_run: bool = False) -> int:
        """Plan, and do what is missing or only describe it; return how many runs have failed."""
        with hold_work_dir(self.work_dir, writes=not dry_run):
            self.plan(writes=not dry_run)
            if dry_run:
                self.describe()
                return 0
            return self.run()

    def plan(self, *, writes: bool = True) -> None:
        """Claim the work dir, unless nothing is written, and prepare what the runs need."""
        if writes:
            claim(self.work_dir, self.marker, self.title, self.settings())

    def describe(self) -> None:
        """Log what ``run`` would do."""
        announce(self.kind, self.runs(), self.log, each=True)

    def run(self) -> int:
        """Do the missing runs, and write the tables after each; return how many have failed."""
        runs = self.runs()
        announce(self.kind, runs, self.log)

        def write(outcomes: Mapping[R, RunOutcome]) -> Files:
            files = {**self.tables(outcomes)}
            failed = [run.name for run, outcome in outcomes.items() if outcome.reason]
            if failed:
                name = next(iter(files))
                files[name] = f"{files[name]}\nFailed, and in no mean: {'; '.join(failed)}.\n"
            write_files(self.work_dir, files)
            return files

        outcomes = execute_runs(runs, self.jobs, self.log, write)
        files = write(outcomes)
        text, *_ = files.values()
        self.log(f"\n{text}")
        self.log(f"all runs, tables: {self.work_dir}/{{{','.join(files)}}}")
        return sum(bool(outcome.reason) for outcome in outcomes.values())

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return what all runs of the work dir share."""

    @abstractmethod
    def runs(self) -> Sequence[R]:
        """Return the runs that are planned."""

    @abstractmethod
    def tables(self, outcomes: Mapping[R, RunOutcome]) -> Files:
        """Return the files of the runs that have ended, the text of all tables first."""
