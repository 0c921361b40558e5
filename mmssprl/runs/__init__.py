"""Runs: work that is done once each, several at a time, and kept when it is complete."""

from .commands import CommandRun
from .execute import execute_runs, with_needs
from .run import Outcome, Run, RunFailedError
from .spread import Spread, spread_of
from .workers import Workers

__all__ = [
    "CommandRun",
    "Outcome",
    "Run",
    "RunFailedError",
    "Spread",
    "Workers",
    "execute_runs",
    "spread_of",
    "with_needs",
]
