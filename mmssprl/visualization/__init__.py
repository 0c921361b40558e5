"""Pictures of the method, of views, losses and prototypes."""

from .curves import draw_losses
from .method import draw_method
from .prototypes import draw_prototypes
from .views import draw_views

__all__ = ["draw_losses", "draw_method", "draw_prototypes", "draw_views"]
