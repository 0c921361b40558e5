import subprocess
import sys
from itertools import product

import mmcv.ops
import pytest
import torch
from helpers.package.checkout import ROOT
from helpers.package.mmcv_builds import IS_COMPILED, SPEC

from mmssprl import _mmcv_ext
from mmssprl._mmcv_operators import provide_operators

pytestmark = pytest.mark.full
BOTH = (sys.modules["mmcv._ext"], _mmcv_ext)


def boxes_in(num, scale, generator):
    corners, sides = torch.rand(2, num, 2, generator=generator) * scale
    return torch.cat([corners, corners + sides], dim=1)


@pytest.mark.skipif(not IS_COMPILED, reason="this mmcv has no compiled operators to compare with")
class TestAgainstCompiled:
    @pytest.mark.parametrize("num", [0, 1, 2, 50, 400])
    def test_nms_keeps_the_same_boxes_in_the_same_order(self, num):
        generator = torch.Generator().manual_seed(num)
        boxes = boxes_in(num, 60, generator)
        scores = torch.rand(num, generator=generator)
        # Whole pixels and tenths give equal scores and overlaps.
        for b, s in ((boxes, scores), (boxes.round(), (scores * 10).round() / 10)):
            for tenths in range(1, 10):
                given = {"iou_threshold": tenths / 10, "offset": 0}
                expected, got = (ext.nms(b, s, **given) for ext in BOTH)
                assert got.dtype == expected.dtype == torch.int64
                assert got.tolist() == expected.tolist()
                assert len(got) > 0 or num == 0

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    @pytest.mark.parametrize(("aligned", "sampling_ratio"), product([True, False], [0, 2]))
    def test_roi_align_to_the_last_bit(self, aligned, sampling_ratio, dtype):
        generator = torch.Generator().manual_seed(0)
        bins = [(7, 7), (14, 14), (2, 5)]
        scales = [1 / 4, 1 / 16, 0.3]
        counts = [0, 1, 12]
        for (height, width), scale, num in product(bins, scales, counts):
            input = torch.randn(2, 3, 17, 23, generator=generator).to(dtype)
            # Some of them begin before the image or end behind it, or are smaller than a pixel.
            boxes = boxes_in(num, 80, generator) - 10
            boxes[num // 2 :, 2:] = boxes[num // 2 :, :2] + 0.5
            rois = torch.cat([torch.arange(num)[:, None] % 2, boxes], dim=1).to(dtype)
            grad = torch.randn(num, 3, height, width, generator=generator).to(dtype)
            given = {"aligned_height": height, "aligned_width": width, "pool_mode": 1}
            given |= {"sampling_ratio": sampling_ratio, "aligned": aligned, "spatial_scale": scale}

            found = []
            for ext in BOTH:
                output = torch.zeros_like(grad)
                grad_input = torch.zeros_like(input)
                unused = input.new_zeros(0)
                ext.roi_align_forward(input, rois, output, unused, unused, **given)
                ext.roi_align_backward(grad, rois, unused, unused, grad_input, **given)
                found.append((output, grad_input))
            for expected, got in zip(*found, strict=True):
                assert torch.equal(got, expected)
                assert got.any() or num < 12


def test_only_an_mmcv_without_operators_gets_torchvisions():
    provide_operators()
    assert sum(type(finder).__name__ == "_OperatorsFinder" for finder in sys.meta_path) == 1
    assert sys.modules["mmcv._ext"].__file__ == SPEC.origin
    assert SPEC.origin.endswith((".so", ".pyd")) == IS_COMPILED


@pytest.fixture
def operators(monkeypatch):
    """mmcv's own functions on torchvision's operators, whatever this mmcv has."""
    for name in ("mmcv.ops.nms", "mmcv.ops.roi_align"):
        monkeypatch.setattr(sys.modules[name], "ext_module", _mmcv_ext)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_roi_align_of_half_types_is_computed_in_single_precision(dtype, operators):
    """Mixed precision gives features of a half type, and float boxes."""
    generator = torch.Generator().manual_seed(0)
    pool = mmcv.ops.RoIAlign((3, 3), 0.25)
    rois = torch.tensor([[0.0, 3, 3, 40, 30], [1, 5, 8, 60, 50]]).to(dtype)
    half = torch.randn(2, 4, 16, 16, generator=generator).to(dtype).requires_grad_()
    single = half.detach().float().requires_grad_()
    with torch.autocast("cpu", dtype):
        got = pool(half, rois)
    expected = pool(single, rois.float()).to(dtype)
    for features in (got, expected):
        features.float().square().sum().backward()
    assert got.dtype == half.grad.dtype == dtype
    assert torch.equal(got, expected)
    assert torch.equal(half.grad, single.grad.to(dtype))
    assert half.grad.any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_nms_takes_scores_of_half_types(dtype, operators):
    generator = torch.Generator().manual_seed(0)
    boxes = boxes_in(50, 20, generator)
    scores = torch.rand(50, generator=generator).to(dtype)
    kept = mmcv.ops.nms(boxes, scores, 0.5)[1]
    assert kept.tolist() == mmcv.ops.nms(boxes, scores.float(), 0.5)[1].tolist()
    assert 0 < len(kept) < 50


class TestRefused:
    """What torchvision has not, when it is called."""

    boxes = torch.tensor([[0.0, 0, 1, 1]])
    scores = torch.ones(1)

    def test_nms_with_an_offset(self, operators):
        with pytest.raises(RuntimeError, match="nms .*offset=1"):
            mmcv.ops.nms(self.boxes, self.scores, 0.5, offset=1)

    def test_the_maximum_of_roi_align(self, operators):
        maximum = mmcv.ops.RoIAlign((2, 2), pool_mode="max")
        with pytest.raises(RuntimeError, match="roi_align .*max"):
            maximum(torch.zeros(1, 1, 4, 4), torch.tensor([[0.0, 0, 0, 2, 2]]))

    def test_other_operators(self, operators):
        with pytest.raises(RuntimeError, match="softnms"):
            mmcv.ops.soft_nms(self.boxes, self.scores)


@pytest.mark.parametrize("tool", ["train.py", "test.py"])
def test_spawned_workers_of_the_tools_get_them(tool):
    """Before a worker unpickles its data set it runs the tool under another name than __main__."""
    code = "import runpy, sys; runpy.run_path(sys.argv[1], run_name='__mp_main__')"
    code += "; print(type(sys.meta_path[-1]).__name__)"
    command = [sys.executable, "-c", code, str(ROOT / "tools" / tool)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "_OperatorsFinder", done.stderr
