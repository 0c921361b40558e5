"""YOLO's lines of poses, without a data.yaml that says so."""

from functools import partial

import numpy as np
import pytest
from helpers.datasets.labelled_folders import HEIGHT, WIDTH, images_of, refused, write_yolo

from mmssprl.datasets.labels import find_labels


def write_poses(root, points):
    """YOLO boxes, each followed by the values of ``points`` of its centre and sides."""
    for path in write_yolo(root).glob("labels/*/*.txt"):
        rows = []
        for line in path.read_text().splitlines():
            box = map(float, line.split()[1:])
            rows.append(" ".join([line, *map(str, points(*box))]))
        path.write_text("\n".join(rows))
    return root


def in_the_box(x, y, w, h, *, num, seen):
    values = []
    for share in (np.arange(num) + 1) / (num + 1) - 0.5:
        values += [x + share * w, y + share * h, *seen]
    return values


@pytest.mark.parametrize("num", [1, 2, 4, 5, 17])
@pytest.mark.parametrize("seen", [(), (1,), (2,)])
def test_of_poses_the_boxes_are_read(tmp_path, num, seen):
    root = write_poses(tmp_path / "poses", partial(in_the_box, num=num, seen=seen))
    data = find_labels(root, "detect")
    plain = find_labels(write_yolo(tmp_path / "plain"), "detect")
    assert [i.objects for i in images_of(data)] == [i.objects for i in images_of(plain)]
    assert "all 32 lines are of poses, a box and keypoints, for example" in data.warnings[0]


def test_points_at_0_are_unknown(tmp_path):
    root = write_poses(tmp_path, lambda x, y, w, h: (x, y, 2, 0, 0, 0))
    assert "32 lines are of poses" in find_labels(root, "detect").warnings[0]


def test_points_outside_of_the_box_are_corners_of_a_polygon(tmp_path):
    root = write_poses(tmp_path, lambda x, y, w, h: (x, y + 0.3, x, y))
    assert not any("poses" in warning for warning in find_labels(root, "detect").warnings)


def test_a_third_number_that_is_no_visibility_is_no_pose(tmp_path):
    root = write_poses(tmp_path, lambda x, y, w, h: (x, y, 0.5))
    refused(root, "detect", "labels/train/0.txt, line 1: must be 'class x y width height'")


@pytest.mark.parametrize("corner", [(0.06, 0.05), (0.03, 0.05)])
def test_small_polygons_are_no_poses(tmp_path, corner):
    root = write_yolo(tmp_path)
    for number, path in enumerate(sorted(root.glob("labels/*/*.txt"))):
        x = 0.3 + 0.01 * number
        values = (x, 0.4, x + 0.06, 0.4, x + corner[0], 0.4 + corner[1])
        path.write_text(f"{number % 2} {' '.join(map(str, values))}\n")
    for image in images_of(find_labels(root, "detect")):
        assert image.objects[0].box[2:] == pytest.approx((0.06 * WIDTH, 0.05 * HEIGHT))
