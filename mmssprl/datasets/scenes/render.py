"""Compose one scene: background, objects from back to front, light and grain.

The tables define which shapes have which textures, and the scenes in which they are typical.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from .backgrounds import STRUCTURES, draw_background
from .objects import Pose, clip_box, draw_color_pair, draw_pose, texture_share

MIN_VISIBLE = 0.25
"""Smallest visible fraction of an object; a pose that hides more of any object is redrawn."""
COUNT_WEIGHTS = (0.12, 0.2, 0.25, 0.2, 0.13, 0.1)
"""Probability of 1, 2, ..., 6 objects, before objects without a place are dropped."""

_POSE_TRIES = 12

Array = NDArray[np.float32]

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
"""Each shape has 2 textures and each texture 4 shapes, so that neither alone is a category."""


def _name_categories() -> Iterator[str]:
    for shape, textures in SHAPE_TEXTURES.items():
        for texture in textures:
            yield f"{texture}_{shape}"


SCENE_CATEGORIES: tuple[str, ...] = tuple(_name_categories())
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
"""Scene name -> the shapes of ``_TEXTURES``, in their order."""


def _name_group(shapes: tuple[str, ...]) -> tuple[str, ...]:
    pairs = zip(_TEXTURES, shapes, strict=True)
    return tuple(f"{texture}_{shape}" for texture, shape in pairs)


SCENE_GROUPS: dict[str, tuple[str, ...]] = {
    scene: _name_group(shapes) for scene, shapes in _GROUP_SHAPES.items()
}
"""Scene name -> its 6 typical categories: 6 different shapes and each texture once, so that texture
alone does not identify the scene. Each category is typical of exactly 2 scenes."""


@dataclass
class SceneObject:
    """An object: its index in ``SCENE_CATEGORIES``, its pixels, and its visible pixels."""

    category: int
    area: int
    visible: int


@dataclass(frozen=True)
class Scene:
    """One rendered image, RGB (H, W, 3), with its ground truth: 1-6 objects from back to front."""

    name: str
    image: NDArray[np.uint8]
    instances: NDArray[np.uint8]
    """(H, W); 0 is background, k + 1 the visible pixels of ``objects[k]``."""
    objects: tuple[SceneObject, ...]


def render_scene(rng: np.random.Generator, size_px: int) -> Scene:
    """Draw a scene of H = W = ``size_px`` and its ground truth."""
    name = tuple(STRUCTURES)[int(rng.integers(len(STRUCTURES)))]
    canvas = draw_background(rng, name, size_px)
    direction = rng.uniform(0, 2 * np.pi)
    light = np.array([np.cos(direction), np.sin(direction)], np.float32)

    instances = np.zeros((size_px, size_px), np.uint8)
    objects: list[SceneObject] = []
    for _ in range(1 + int(rng.choice(len(COUNT_WEIGHTS), p=COUNT_WEIGHTS))):
        category = _draw_category(rng, name)
        texture, shape = SCENE_CATEGORIES[category].split("_")
        for _ in range(_POSE_TRIES):
            pose = draw_pose(rng, shape, size_px)
            if _place(pose, category, instances, objects):
                _paint(rng, canvas, pose, texture, light)
                break
    return Scene(name, _expose(rng, canvas, light), instances, tuple(objects))


def _draw_category(rng: np.random.Generator, scene: str) -> int:
    """Draw a category of the scene's group, or sometimes one of the others."""
    group = [SCENE_CATEGORIES.index(title) for title in SCENE_GROUPS[scene]]
    if rng.random() >= TYPICAL_SHARE:
        group = [c for c in range(len(SCENE_CATEGORIES)) if c not in group]
    return group[int(rng.integers(len(group)))]


def _place(
    pose: Pose, category: int, instances: NDArray[np.uint8], objects: list[SceneObject]
) -> bool:
    """Add an object in front of the others, in place, unless that hides too much of one."""
    there, here = clip_box(pose.left, pose.top, len(pose.coverage), len(instances))
    mask = pose.coverage >= 0.5
    area = int(mask.sum())
    visible = int(mask[here].sum())
    if visible < MIN_VISIBLE * area:
        return False

    hidden = np.bincount(instances[there][mask[here]], minlength=len(objects) + 1)[1:]
    losses = list(zip(objects, hidden.tolist(), strict=True))
    if any(other.visible - lost < MIN_VISIBLE * other.area for other, lost in losses):
        return False

    for other, lost in losses:
        other.visible -= lost
    objects.append(SceneObject(category, area, visible))
    instances[there][mask[here]] = len(objects)
    return True


def _paint(rng: np.random.Generator, canvas: Array, pose: Pose, texture: str, light: Array) -> None:
    """Blend a textured and shaded object with its shadow into the canvas (H, W, 3) in place."""
    _cast_shadow(canvas, pose, light)

    # Coordinates in the object's unit disc: x and y as in the image, u and v upright.
    there, here = clip_box(pose.left, pose.top, len(pose.coverage), len(canvas))
    rows, columns = there
    center_x, center_y = pose.center_px
    x, y = np.meshgrid(
        _unit_steps(columns, center_x, pose.radius_px), _unit_steps(rows, center_y, pose.radius_px)
    )
    m = pose.to_upright.astype(np.float32)
    u = m[0, 0] * x + m[0, 1] * y
    v = m[1, 0] * x + m[1, 1] * y

    share = texture_share(texture, u, v, radius_px=pose.radius_px, rng=rng)
    first, second = draw_color_pair(rng, min_gap=90, max_gap=160)
    color = first + (second - first) * share[..., None]
    color *= (1 + np.float32(0.18) * (light[0] * x + light[1] * y))[..., None]
    canvas[there] += (color - canvas[there]) * pose.coverage[here][..., None]


def _unit_steps(pixels: slice, center: float, radius_px: float) -> Array:
    """Return the distances of pixels from an object's centre, in radii."""
    steps = np.arange(pixels.start, pixels.stop, dtype=np.float32)
    return (steps + np.float32(0.5 - center)) / np.float32(radius_px)


def _cast_shadow(canvas: Array, pose: Pose, light: Array) -> None:
    """Darken, in place, the canvas around an object on the side away from the light."""
    reach = max(2, round(0.35 * pose.radius_px))
    shadow = cv2.GaussianBlur(np.pad(pose.coverage, reach), (0, 0), 0.3 * reach)
    offset_x, offset_y = np.rint(-0.4 * reach * light).astype(int).tolist()
    left = pose.left - reach + offset_x
    top = pose.top - reach + offset_y
    there, here = clip_box(left, top, len(shadow), len(canvas))
    canvas[there] *= 1 - np.float32(0.45) * shadow[here][..., None]


def _expose(rng: np.random.Generator, canvas: Array, light: Array) -> NDArray[np.uint8]:
    """Add a lighting gradient, vignetting and sensor noise to the canvas (H, W, 3)."""
    steps = np.linspace(-1, 1, len(canvas), dtype=np.float32)
    x, y = np.meshgrid(steps, steps)
    gradient = np.float32(rng.uniform(0, 0.2))
    vignette = np.float32(rng.uniform(0, 0.12))
    gain = 1 + gradient * (light[0] * x + light[1] * y) - vignette * (x * x + y * y)

    noise = rng.standard_normal(canvas.shape, dtype=np.float32) * np.float32(rng.uniform(1, 5))
    return np.clip(np.rint(canvas * gain[..., None] + noise), 0, 255).astype(np.uint8)
