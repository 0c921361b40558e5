"""What a check has found, and how it is shown."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

OK: Literal["OK"] = "OK"
MISSING: Literal["MISSING"] = "MISSING"
WRONG: Literal["WRONG"] = "WRONG"

_HEADER = ("piece", "status", "found")


@dataclass(frozen=True)
class Finding:
    """One piece of a data set.

    Args:
        name: The file or folder, or what is measured on it.
        status: "OK", "MISSING", or "WRONG" if it is there and not as it must be.
        detail: What was found, one line.
        remedy: Lines of shell that mend it, comments behind "#"; empty if OK.
    """

    name: str
    status: Literal["OK", "MISSING", "WRONG"]
    detail: str
    remedy: str = ""


def judge_count(
    name: str, count: int, expected: int, what: str, *, any_size: bool, remedy: str
) -> Finding:
    """Compare a count with the official one, or only report it.

    Args:
        name: Of the finding.
        count: What was counted.
        expected: Its official value.
        what: What is counted, with the data set if it helps, for example "images".
        any_size: Whether any count above 0 is right.
        remedy: For a count that is not.
    """
    if count == expected or (any_size and count):
        return Finding(name, OK, f"{count:,} {what}")
    hint = "# if it is meant to be another set, pass --any-size; if not, move it away and then:\n"
    detail = f"not the official set: {count:,} of {expected:,} {what}"
    return Finding(name, WRONG, detail, hint + remedy)


def format_table(findings: Sequence[Finding]) -> str:
    """Lay out the findings, one a line, with aligned columns."""
    rows = [_HEADER, *((item.name, item.status, item.detail) for item in findings)]
    first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
    lines = [f"{name:{first}}  {status:{second}}  {detail}" for name, status, detail in rows]
    lines.insert(1, "  ".join("-" * width for width in (first, second, len(_HEADER[2]))))
    return "\n".join(line.rstrip() for line in lines)


def format_remedies(findings: Sequence[Finding]) -> str:
    """Join the remedies, each once; a shell can run them."""
    return "\n\n".join(
        dict.fromkeys(item.remedy.rstrip() for item in findings if item.status != OK)
    )
