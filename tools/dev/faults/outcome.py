"""What comes of a fault."""

from datetime import UTC, datetime
from typing import NamedTuple

import torch

from mmssprl.system.environment import processor, source_commit, usable_cores


class Outcome(NamedTuple):
    """One row of the table.

    Attributes:
        fault: What was done to the run.
        tries: How often.
        survived: How often the run went on, with nothing torn, as if nothing had happened.
        lost_steps: Steps that were done again, the most in one try and on average.
        remark: What else counts.
    """

    fault: str
    tries: int
    survived: int
    lost_steps: str
    remark: str


def describe_lost(steps: list[int]) -> str:
    """Return the most and the mean of the steps that were done again."""
    return f"{max(steps)} at most, {sum(steps) / len(steps):.1f} on average" if steps else "0"


def describe_run(command: str, minutes: float) -> str:
    """Return where and when faults were injected, and by what."""
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return (
        f"`{command}`, {when}, commit {source_commit(excluded='docs/results')}, {processor()}, "
        f"{usable_cores()} cores, torch {torch.__version__}, {minutes:.0f} minutes."
    )
