"""One stopwatch for every step: ``profile``, forecasts, and the paces of ``compare``."""

from .profile import profile_training
from .result import Profile
from .table import advise, format_csv, format_profile

__all__ = ["Profile", "advise", "format_csv", "format_profile", "profile_training"]
