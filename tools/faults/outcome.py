"""What comes of a fault."""

from typing import NamedTuple


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
