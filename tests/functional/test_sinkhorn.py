import weakref

import numpy as np
import pytest
import reference
import torch
from helpers.models.head_cases import cosines
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from mmssprl.functional import sinkhorn, sinkhorn_jointly

pytestmark = pytest.mark.fence


@pytest.mark.parametrize("epsilon", [0.02, 0.03, 0.05, 0.1, 1.0])
@pytest.mark.parametrize("num_iters", [1, 3, 10])
def test_equals_the_loops_over_the_matrix(epsilon, num_iters):
    scores = cosines(12, 5)
    expected = reference.sinkhorn(scores.numpy(), epsilon, num_iters)
    codes = sinkhorn(scores, epsilon=epsilon, num_iters=num_iters)
    np.testing.assert_allclose(codes.numpy(), expected, rtol=2e-4, atol=1e-6)


@pytest.mark.parametrize("epsilon", [0.005, 0.01, 0.05, 0.5])
@pytest.mark.parametrize("low", [-1.0, 0.0])
def test_no_epsilon_overflows(epsilon, low):
    # A row with all scores far below 1, and a prototype far from all rows. Both vanish in a
    # float32 kernel.
    scores = cosines(32, 16)
    scores[3] = low
    scores[:, 5] = -1.0
    codes = sinkhorn(scores, epsilon=epsilon)
    assert torch.isfinite(codes).all()
    torch.testing.assert_close(codes.sum(dim=1), torch.ones(32))
    expected = reference.sinkhorn(scores.numpy(), epsilon, 3)
    np.testing.assert_allclose(codes.numpy(), expected, atol=5e-4)


def test_codes_have_no_gradient():
    assert not sinkhorn(cosines(16, 8).requires_grad_()).requires_grad


def test_codes_are_float32_under_autocast():
    scores = cosines(16, 8)
    with torch.autocast("cpu", torch.bfloat16):
        codes = sinkhorn(scores, epsilon=0.01)
    assert codes.dtype == torch.float32
    torch.testing.assert_close(codes, sinkhorn(scores, epsilon=0.01), rtol=0, atol=0)


def test_half_scores_are_computed_in_float32():
    half = cosines(16, 8).bfloat16()
    torch.testing.assert_close(sinkhorn(half), sinkhorn(half.float()), rtol=0, atol=0)


def test_joint_problems_equal_single_ones():
    problems = [
        torch.stack([cosines(10, 6), cosines(10, 6, seed=3)]),
        cosines(4, 3, seed=1)[None],
        cosines(7, 6, seed=2)[None],
    ]
    before = [scores.clone() for scores in problems]
    joint = sinkhorn_jointly(problems, epsilon=0.03)
    first = sinkhorn_jointly(problems, epsilon=0.03, num_coded=[10, 1, 3])
    for codes, rows, scores, same in zip(joint, first, problems, before, strict=True):
        single = torch.stack([sinkhorn(each, epsilon=0.03) for each in scores])
        torch.testing.assert_close(codes, single, rtol=0, atol=0)
        assert torch.equal(rows, codes[:, : rows.shape[1]])
        assert torch.equal(scores, same)  # the caller's scores do not change
    assert [rows.shape[1] for rows in first] == [10, 1, 3]


class LiveMemory(TorchDispatchMode):
    """Peak memory, in bytes, of tensors created in this context, without the given ones."""

    def __init__(self, given):
        super().__init__()
        self.given = {tensor.data_ptr() for tensor in given}
        self.made = []
        self.peak = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self.made += [weakref.ref(x) for x in tree_leaves(out) if isinstance(x, torch.Tensor)]
        live = [tensor for ref in self.made if (tensor := ref()) is not None]
        sizes = {x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for x in live}
        self.peak = max(self.peak, sum(n for at, n in sizes.items() if at not in self.given))
        return out


def test_peak_memory_is_all_kernels_plus_two_problems():
    # Queues make problems long: 6 of 2 + 400 rows.
    problems = [cosines(402, 100, seed=seed)[None] for seed in range(6)]
    with LiveMemory(problems) as memory:
        sinkhorn_jointly(problems, num_coded=[2] * 6)
    assert memory.peak < (6 + 2.2) * problems[0].nbytes


@pytest.mark.parametrize("setting", [{"epsilon": 0.0}, {"num_iters": 0}])
def test_bad_arguments(setting):
    ((name, value),) = setting.items()
    with pytest.raises(ValueError, match=f"{name}.*{value}"):
        sinkhorn(cosines(4, 3), **setting)
