"""Pictures of the method, of views, losses, prototypes and feature maps."""

from .assignments import Assignments
from .curves import draw_losses
from .feature_maps import draw_feature_maps
from .method import draw_method
from .prototype_map import draw_prototype_map
from .prototypes import draw_prototype_parts, draw_prototypes
from .views import draw_views

__all__ = [
    "Assignments",
    "draw_feature_maps",
    "draw_losses",
    "draw_method",
    "draw_prototype_map",
    "draw_prototype_parts",
    "draw_prototypes",
    "draw_views",
]
