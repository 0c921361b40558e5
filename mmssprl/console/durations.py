"""Durations and rates as text."""

import re

from ..errors import UserValueError

_UNIT_S = {"d": 86_400, "h": 3600, "min": 60, "m": 60, "s": 1}
_PART = r"(\d+(?:\.\d+)?)(d|h|min|m|s)"


def format_hours(hours: float) -> str:
    """Return a duration with about two digits, in s, min or h."""
    if hours < 1.5 / 60:
        return f"{max(1, round(hours * 3600))} s"
    if hours < 1.5:
        return f"{round(hours * 60)} min"
    return f"{hours:.1f} h" if hours < 10 else f"{hours:,.0f} h"


def format_rate(per_second: float, noun: str = "") -> str:
    """Return a rate with about two digits: ``31/s``, ``2.5 images/s``."""
    digits = 1 if per_second < 10 else 0
    return f"{per_second:,.{digits}f}{noun and f' {noun}'}/s"


def parse_duration(text: str, name: str) -> float:
    """Return the seconds of a time such as 90m, 2h, 1h30m or 1d.

    Raises:
        ValueError: Another text; the message begins with ``name``.
    """
    words = text.replace(" ", "").lower()
    seconds = sum(float(number) * _UNIT_S[unit] for number, unit in re.findall(_PART, words))
    if not re.fullmatch(f"(?:{_PART})+", words) or not seconds:
        raise UserValueError(
            f"{name} must be a time such as 90m, 2h, 1h30m or 1d, but got {text!r}."
        )
    return seconds
