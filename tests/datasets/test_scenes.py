import json
from pathlib import Path

import numpy as np
import pytest

from mmssprl.datasets.scenes.generate import draw_scene, tight_box
from mmssprl.datasets.scenes.objects import draw_pose

GOLDEN = json.loads(Path(__file__).with_name("scenes.json").read_text())
"""``summary`` of the scenes that the committed tables were made of."""
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


def summary(scene):
    """Name, objects, and the mean colours of 4 x 4 blocks of 16 px."""
    boxes = [tight_box(scene.instances == k) for k in range(1, 1 + len(scene.objects))]
    objects = [
        [item.category, item.area, item.visible, *box]
        for item, box in zip(scene.objects, boxes, strict=True)
    ]
    blocks = scene.image.reshape(4, 16, 4, 16, 3).mean((1, 3)).round(1)
    return scene.name, objects, blocks.ravel().tolist()


@pytest.mark.parametrize("split", GOLDEN)
def test_scenes_stay_as_they_were(split):
    assert len(GOLDEN[split]) == 40
    for index, (name, objects, blocks) in enumerate(GOLDEN[split]):
        found = summary(draw_scene(0, split, index, 64))
        assert found[0] == name
        # Another library may round a pixel of an edge differently.
        np.testing.assert_allclose(found[1], objects, atol=2)
        np.testing.assert_allclose(found[2], blocks, atol=0.3)


@pytest.mark.parametrize("shape", AREAS)
def test_silhouette_has_the_area_of_its_closed_form(shape):
    for seed in range(4):
        pose = draw_pose(np.random.default_rng(seed), shape, 640)
        wanted = AREAS[shape] * pose.radius_px**2 / np.linalg.det(pose.to_upright)
        assert pose.coverage.sum() == pytest.approx(wanted, rel=0.02)
