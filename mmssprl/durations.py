"""Durations for people."""


def format_hours(hours: float) -> str:
    """Return a duration with about two digits, in a unit that suits it."""
    if hours < 1.5 / 60:
        return f"{max(1, round(hours * 3600))} s"
    if hours < 1.5:
        return f"{round(hours * 60)} min"
    return f"{hours:.1f} h" if hours < 10 else f"{hours:,.0f} h"
