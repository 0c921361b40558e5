"""Boxes in crops, mirrored ones and their pixels: tests/models/baselines/test_maskco.py."""

import pytest
import torch
from reference import pooled_by_loops

from mmssprl.functional.boxes import pool_boxes

pytestmark = pytest.mark.fence


def test_pooling_equals_bilinear_loops():
    generator = torch.Generator().manual_seed(0)
    maps = torch.rand(2, 2, 6, 6, generator=generator, dtype=torch.float64)
    boxes = torch.tensor(
        [
            [[0, 0, 48, 48], [3, 5, 20, 31.5], [-9, 10, 60, 12]],
            [[8, 8, 16, 24], [40, 1, 47, 9], [0, 0, 1, 1]],
        ],
        dtype=torch.float64,
    )
    found = pool_boxes(maps, boxes, 48, cells=3).view(2, 3, 2, 3, 3)
    for n in range(2):
        for r in range(3):
            for c in range(2):
                expected = pooled_by_loops(maps[n, c], boxes[n, r], 48, 3, 2)
                torch.testing.assert_close(found[n, r, c], expected, atol=1e-12, rtol=0)
