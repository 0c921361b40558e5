"""One stopwatch for every step: ``profile``, forecasts, and the paces of ``compare``."""

from .profile import advise, format_csv, format_profile, profile_training
from .result import Profile

__all__ = ["Profile", "advise", "format_csv", "format_profile", "profile_training"]
