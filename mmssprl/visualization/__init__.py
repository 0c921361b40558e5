"""Pictures of views, losses and prototypes."""

from .losses import draw_losses
from .prototypes import draw_prototypes
from .views import draw_views

__all__ = ["draw_losses", "draw_prototypes", "draw_views"]
