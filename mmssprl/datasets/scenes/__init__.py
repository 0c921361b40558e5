"""``scenes``: drawn multi-object scenes in COCO and PASCAL VOC layout, the embedded sample data.

A category is a shape with a texture, a scene is a background structure with typical categories.
All colours are random.
"""

from .generate import generate_scenes
from .render import SCENE_CATEGORIES

__all__ = ["SCENE_CATEGORIES", "generate_scenes"]
