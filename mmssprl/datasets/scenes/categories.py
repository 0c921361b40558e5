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

SCENE_GROUPS: dict[str, tuple[str, ...]] = {
    "field": (
        "striped_ring",
        "checked_disc",
        "zigzag_hourglass",
        "rayed_square",
        "dotted_crescent",
        "ringed_drop",
    ),
    "tiles": (
        "striped_arrow",
        "checked_heart",
        "zigzag_square",
        "rayed_ring",
        "dotted_cross",
        "ringed_hexagon",
    ),
    "sea": (
        "striped_triangle",
        "checked_crescent",
        "zigzag_drop",
        "rayed_hourglass",
        "dotted_hexagon",
        "ringed_star",
    ),
    "sunburst": (
        "striped_ring",
        "checked_crescent",
        "zigzag_square",
        "rayed_cross",
        "dotted_hexagon",
        "ringed_drop",
    ),
    "bricks": (
        "striped_disc",
        "checked_heart",
        "zigzag_drop",
        "rayed_square",
        "dotted_triangle",
        "ringed_star",
    ),
    "clouds": (
        "striped_triangle",
        "checked_disc",
        "zigzag_heart",
        "rayed_hourglass",
        "dotted_cross",
        "ringed_arrow",
    ),
    "lattice": (
        "striped_disc",
        "checked_star",
        "zigzag_heart",
        "rayed_ring",
        "dotted_crescent",
        "ringed_arrow",
    ),
    "planks": (
        "striped_arrow",
        "checked_star",
        "zigzag_hourglass",
        "rayed_cross",
        "dotted_triangle",
        "ringed_hexagon",
    ),
}
"""Scene name -> its 6 typical categories: 6 different shapes and every texture once, so that
texture alone does not tell the scene; each category is typical of exactly 2 scenes."""


def draw_category(rng: np.random.Generator, scene: str) -> int:
    """Draw the category of one object.

    Args:
        rng: Source of randomness.
        scene: A key of ``SCENE_GROUPS``.

    Returns:
        Index into ``SCENE_CATEGORIES``: uniform over the scene's group with probability
        ``TYPICAL_SHARE``, otherwise uniform over the 18 categories outside it.
    """
    group = [SCENE_CATEGORIES.index(name) for name in SCENE_GROUPS[scene]]
    if rng.random() >= TYPICAL_SHARE:
        group = [c for c in range(len(SCENE_CATEGORIES)) if c not in group]
    return group[int(rng.integers(len(group)))]
