"""Pictures of the method, of views, losses, prototypes and feature maps."""

from .curves import draw_losses
from .feature_maps import draw_feature_maps
from .views import draw_views

__all__ = ["draw_feature_maps", "draw_losses", "draw_views"]
