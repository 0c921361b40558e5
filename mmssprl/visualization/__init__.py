"""Pictures of views and losses."""

from .benchmark import draw_benchmark
from .losses import draw_losses
from .views import draw_views

__all__ = ["draw_benchmark", "draw_losses", "draw_views"]
