"""Checks of a model's settings; each names the setting, its rule and the value."""

from collections.abc import Sequence

from ..errors import UserValueError


def check_least(low: float, **settings: float) -> None:
    """Raise ValueError unless all settings are at least ``low``."""
    for name, value in settings.items():
        if not value >= low:
            raise UserValueError(f"{name} must be >= {low}, but got {value}.")


def check_positive(**settings: float) -> None:
    """Raise ValueError unless all settings are above 0."""
    for name, value in settings.items():
        if not value > 0:
            raise UserValueError(f"{name} must be > 0, but got {value}.")


def per_level(value: float | Sequence, num_levels: int, name: str, low: int) -> list:
    """Return the setting of each patch level, given as one number for all or as one per level.

    Raises:
        ValueError: Another number of levels, or a value below ``low``.
    """
    values = list(value) if isinstance(value, Sequence) else [value] * num_levels
    if len(values) != num_levels or any(v < low for v in values):
        raise UserValueError(
            f"{name} of the patch levels must be one number or {num_levels} numbers, each >= "
            f"{low}, but got {value}."
        )
    return values
