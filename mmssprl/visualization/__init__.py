"""Pictures of views and losses."""

from .losses import draw_losses
from .views import draw_views

__all__ = ["draw_losses", "draw_views"]
