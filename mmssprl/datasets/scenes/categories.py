"""The vocabulary: which shapes wear which textures, and in which scene they are typically met."""

import numpy as np

TYPICAL_SHARE = 0.8
"""Probability that an object belongs to its scene's group; the others are drawn from the rest."""

SHAPE_TEXTURES: dict[str, tuple[str, str]] = {
    "disc": ("striped", "checked"),
    "square": ("zigzag", "rayed"),
    "triangle": ("striped", "dotted"),
    "star": ("checked", "ringed"),
    "ring": ("striped", "rayed"),
    "cross": ("dotted", "rayed"),
    "crescent": ("checked", "dotted"),
    "heart": ("checked", "zigzag"),
    "arrow": ("striped", "ringed"),
    "hexagon": ("dotted", "ringed"),
    "hourglass": ("zigzag", "rayed"),
    "drop": ("zigzag", "ringed"),
}
"""Each shape wears 2 textures and each texture is worn by 4 shapes: neither alone is a category."""

SCENE_CATEGORIES: tuple[str, ...] = tuple(
    f"{texture}_{shape}" for shape, textures in SHAPE_TEXTURES.items() for texture in textures
)
"""The 24 category names; the COCO id of ``SCENE_CATEGORIES[c]`` is c + 1."""

_TEXTURES = ("striped", "checked", "zigzag", "rayed", "dotted", "ringed")
_GROUP_SHAPES: dict[str, tuple[str, ...]] = {
    "field": ("ring", "disc", "hourglass", "square", "crescent", "drop"),
    "tiles": ("arrow", "heart", "square", "ring", "cross", "hexagon"),
    "sea": ("triangle", "crescent", "drop", "hourglass", "hexagon", "star"),
    "sunburst": ("ring", "crescent", "square", "cross", "hexagon", "drop"),
    "bricks": ("disc", "heart", "drop", "square", "triangle", "star"),
    "clouds": ("triangle", "disc", "heart", "hourglass", "cross", "arrow"),
    "lattice": ("disc", "star", "heart", "ring", "crescent", "arrow"),
    "planks": ("arrow", "star", "hourglass", "cross", "triangle", "hexagon"),
}
"""Scene name -> the shapes that wear these textures, in their order."""

SCENE_GROUPS: dict[str, tuple[str, ...]] = {
    scene: tuple(f"{texture}_{shape}" for texture, shape in zip(_TEXTURES, shapes, strict=True))
    for scene, shapes in _GROUP_SHAPES.items()
}
"""Scene name -> its 6 typical categories: 6 different shapes and every texture once, so that
texture alone does not tell the scene; each category is typical of exactly 2 scenes."""


def draw_category(rng: np.random.Generator, scene: str) -> int:
    """Draw an object, an index of ``SCENE_CATEGORIES``, evenly in or outside the scene's group."""
    group = [SCENE_CATEGORIES.index(name) for name in SCENE_GROUPS[scene]]
    if rng.random() >= TYPICAL_SHARE:
        group = [c for c in range(len(SCENE_CATEGORIES)) if c not in group]
    return group[int(rng.integers(len(group)))]
