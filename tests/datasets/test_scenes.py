from collections import Counter

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from mmssprl.datasets.scenes import SCENE_CATEGORIES, backgrounds, render
from mmssprl.datasets.scenes.generate import draw_scene
from mmssprl.datasets.scenes.objects import (
    OUTLINES,
    TEXTURES,
    Pose,
    clip_box,
    draw_pose,
    pose_outline,
    texture_share,
)
from mmssprl.datasets.scenes.render import MIN_VISIBLE, SceneObject, _paint, _place

PX = 64
AREAS = {  # closed forms, in squared radii of the circumscribed circle
    "disc": np.pi,
    "square": 2.0,
    "triangle": 3 * np.sqrt(3) / 4,
    "star": 5 * 0.45 * np.sin(np.pi / 5),
    "ring": np.pi * (1 - 0.42**2),
    "cross": (8 * 0.36 - 4 * 0.36**2) / (1 + 0.36**2),
    "crescent": np.pi - (2 * np.arccos(0.4) - 0.8 * np.sqrt(1 - 0.4**2)),
    "hexagon": 3 * np.sqrt(3) / 2,
}


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.fixture(scope="module")
def many():
    return [draw_scene(0, "train", i, PX) for i in range(500)]


def test_neither_shape_nor_texture_alone_is_a_category():
    textures, shapes = zip(*(name.split("_") for name in SCENE_CATEGORIES), strict=True)
    assert len(set(SCENE_CATEGORIES)) == 24
    assert Counter(shapes) == dict.fromkeys(OUTLINES, 2)
    assert Counter(textures) == dict.fromkeys(TEXTURES, 4)


def test_every_scene_has_six_shapes_and_all_textures():
    assert list(render.SCENE_GROUPS) == list(backgrounds.STRUCTURES)
    assert len(render.SCENE_GROUPS) == 8
    for group in render.SCENE_GROUPS.values():
        assert {name.split("_")[0] for name in group} == set(TEXTURES)
        assert len({name.split("_")[1] for name in group}) == len(group) == 6
    members = Counter(name for group in render.SCENE_GROUPS.values() for name in group)
    assert members == dict.fromkeys(SCENE_CATEGORIES, 2)


def test_four_of_five_objects_are_typical_and_all_others_occur():
    draws = Counter(render.draw_category(r, "sea") for r in [rng()] for _ in range(6000))
    typical = [SCENE_CATEGORIES.index(name) for name in render.SCENE_GROUPS["sea"]]
    assert sum(draws[c] for c in typical) / 6000 == pytest.approx(0.8, abs=0.02)
    assert set(draws) == set(range(24))
    assert min(draws[c] for c in typical) > 0.1 * 6000


@pytest.mark.parametrize("shape", OUTLINES)
def test_posed_outline_touches_the_unit_circle_and_maps_back(shape):
    contours, to_upright = pose_outline(shape, angle=0.4, aspect=1.15)
    norms = np.linalg.norm(np.concatenate(contours), axis=1)
    assert norms.max() == pytest.approx(1)
    for posed, upright in zip(contours, OUTLINES[shape], strict=True):
        np.testing.assert_allclose(posed @ to_upright.T, upright, atol=1e-12)


@pytest.mark.parametrize("shape", AREAS)
def test_silhouette_has_the_area_of_its_closed_form(shape):
    for seed in range(4):
        pose = draw_pose(rng(seed), shape, 640)
        wanted = AREAS[shape] * pose.radius_px**2 / np.linalg.det(pose.to_upright)
        assert pose.coverage.sum() == pytest.approx(wanted, rel=0.02)


def test_silhouette_is_centred_to_a_fraction_of_a_pixel():
    for seed in range(8):
        pose = draw_pose(rng(seed), "disc", 128)
        steps = np.arange(len(pose.coverage)) + 0.5
        total = pose.coverage.sum()
        x, y = (pose.coverage.sum(axis) @ steps / total for axis in (0, 1))
        assert pose.left + x == pytest.approx(pose.center_px[0], abs=0.06)
        assert pose.top + y == pytest.approx(pose.center_px[1], abs=0.06)


@pytest.mark.parametrize("texture", TEXTURES)
def test_texture_is_a_distance_that_does_not_depend_on_the_scale(texture):
    steps = np.linspace(-0.9, 0.9, 181, dtype=np.float64)
    u, v = np.meshgrid(steps, steps)
    slope = np.hypot(*np.gradient(TEXTURES[texture](u, v, rng()), steps, steps))
    assert np.median(slope) == pytest.approx(1, abs=0.03)
    small, large = (texture_share(texture, u, v, radius_px=r, rng=rng(1)) for r in (8, 80))
    np.testing.assert_array_equal(small > 0.5, large > 0.5)
    assert 0.3 < (large > 0.5).mean() < 0.7
    assert ((small > 0) & (small < 1)).sum() > 4 * ((large > 0) & (large < 1)).sum()


def _color_features(image):
    values = image.reshape(-1, 3) / 255.0
    bins = [np.histogram(values[:, c], 8, (0, 1))[0] / len(values) for c in range(3)]
    return np.concatenate([values.mean(0), values.std(0), *bins])


def _structure_features(image):
    dy, dx = np.gradient(image.mean(axis=2))
    sector = ((np.arctan2(dy, dx) % np.pi) / np.pi * 9).astype(int) % 9
    size = np.hypot(dx, dy)
    cells = np.arange(PX) // 16
    index = (cells[:, None] * 4 + cells) * 9 + sector
    energy = np.bincount(index.ravel(), size.ravel(), 144).reshape(16, 9)
    return (energy / np.linalg.norm(energy, axis=1, keepdims=True)).ravel()


def _scene_accuracy(scenes, features):
    x = StandardScaler().fit_transform([features(scene.image) for scene in scenes])
    y = [scene.name for scene in scenes]
    return LogisticRegression(C=0.01, max_iter=200).fit(x[:350], y[:350]).score(x[350:], y[350:])


def test_scene_is_told_by_structure_and_not_by_color(many):
    assert _scene_accuracy(many, _color_features) < 0.22
    assert _scene_accuracy(many, _structure_features) > 0.6


def test_color_of_objects_is_independent_of_category(many):
    rows = [
        (item.category, *scene.image[scene.instances == k].mean(axis=0))
        for scene in many
        for k, item in enumerate(scene.objects, start=1)
    ]
    category, colors = np.array(rows)[:, 0], np.array(rows)[:, 1:]
    between = sum(
        (category == c).sum() * (colors[category == c].mean(0) - colors.mean(0)) ** 2
        for c in range(24)
    )
    explained = between / ((colors - colors.mean(0)) ** 2).sum(0)
    # 23 degrees of freedom explain 23 / n by chance.
    assert explained.max() < 2.5 * 23 / len(rows)


def test_scenes_hold_one_to_six_visible_objects(many):
    assert {len(scene.objects) for scene in many} == {1, 2, 3, 4, 5, 6}
    for scene in many:
        pixels = np.bincount(scene.instances.ravel(), minlength=len(scene.objects) + 1)
        assert len(pixels) == len(scene.objects) + 1
        for seen, item in zip(pixels[1:], scene.objects, strict=True):
            assert seen == item.visible <= item.area
            assert seen >= MIN_VISIBLE * item.area


def test_object_is_painted_exactly_where_its_mask_is():
    for seed in range(20):
        pose = draw_pose(rng(seed), "arrow", PX)
        canvas = np.full((PX, PX, 3), -1000.0, np.float32)
        _paint(rng(seed), canvas, pose, "striped", np.array([0.6, -0.8], np.float32))
        coverage = np.zeros((PX, PX))
        there, here = clip_box(pose.left, pose.top, len(pose.coverage), PX)
        coverage[there] = pose.coverage[here]
        assert (canvas[coverage == 1] > 0).all()
        assert (canvas[coverage == 0] < -500).all()


def test_object_in_front_takes_pixels_unless_it_hides_too_much():
    def box(left, width):
        return Pose(np.zeros(2), 1.0, np.eye(2), left, 0, np.ones((width, width), np.float32))

    instances, objects = np.zeros((8, 8), np.uint8), []
    assert _place(box(-1, 4), 5, instances, objects)
    assert not _place(box(0, 6), 7, instances, objects)
    assert _place(box(2, 4), 7, instances, objects)
    assert objects == [SceneObject(5, 16, 8), SceneObject(7, 16, 16)]
    np.testing.assert_array_equal(instances[3], [1, 1, 2, 2, 2, 2, 0, 0])
    np.testing.assert_array_equal(instances[4], 0)
