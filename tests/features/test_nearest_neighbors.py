"""Scores of the nearest neighbours, by hand and against a loop."""

import math

import pytest
import torch

from mmssprl.features import knn_scores


def test_two_neighbours_by_hand():
    train = torch.tensor([[1.0, 0.0], [0.0, 2.0], [-3.0, 0.0]])
    labels = torch.tensor([[1, 0], [0, 1], [1, 1]])
    # Cosines 0.6, 0.8 and -0.6: the third is not among the nearest two.
    near, far = math.exp(0.8 / 0.5), math.exp(0.6 / 0.5)
    found = knn_scores(train, labels, torch.tensor([[3.0, 4.0]]), num_neighbors=2, temperature=0.5)
    expected = [[far / (near + far), near / (near + far)]]
    assert found.tolist() == [pytest.approx(row, rel=1e-6) for row in expected]


def test_a_loop_in_float64_with_unknown_labels_and_any_scale():
    generator = torch.Generator().manual_seed(0)
    train = torch.randn(40, 6, generator=generator)
    labels = torch.randint(-1, 2, (40, 3), generator=generator)
    test = torch.randn(9, 6, generator=generator)
    labels[:, 2] = -1
    found = knn_scores(train * 7, labels, test, num_neighbors=5, temperature=0.1)
    for i, x in enumerate(test.double()):
        cosines = [float(x @ y / x.norm() / y.norm()) for y in train.double()]
        nearest = sorted(range(40), key=lambda j: -cosines[j])[:5]
        for k in range(3):
            known = {j: math.exp(cosines[j] / 0.1) for j in nearest if labels[j, k] >= 0}
            votes = sum(weight for j, weight in known.items() if labels[j, k] == 1)
            expected = votes / sum(known.values()) if known else 0.0
            assert float(found[i, k]) == pytest.approx(expected, abs=1e-5)


def test_what_does_not_fit_is_refused():
    x, y = torch.ones(3, 2), torch.ones(3, 1)
    with pytest.raises(ValueError, match="at least 1 .* but got 0"):
        knn_scores(x, y, x, num_neighbors=0)
    with pytest.raises(
        ValueError, match=r"must be \(N, C\) .* got \(3, 2\), \(3, 1\) and \(3, 1\)"
    ):
        knn_scores(x, y, y)
    # Fewer images than neighbours: all of them.
    assert knn_scores(x, y, x, num_neighbors=9).tolist() == [[1.0]] * 3
