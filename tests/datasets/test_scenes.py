import numpy as np
import pytest

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
from mmssprl.datasets.scenes.render import SceneObject, _paint, _place

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
