"""The nearest features and the scores of their labels, by hand and against a loop."""

import math

import numpy as np
import pytest
import torch

from mmssprl.features import knn_scores
from mmssprl.features.neighbor_search import nearest


class TestNearest:
    def test_hand_made_cosines_of_any_norm(self):
        features = torch.tensor([[2.0, 0], [0, 5], [3, 3], [-1, 0]])
        indices, cosines = nearest(torch.tensor([[10.0, 0]]), features, 3)
        assert indices.tolist() == [[0, 2, 1]]
        torch.testing.assert_close(cosines, torch.tensor([[1, 0.5**0.5, 0]]))

    def test_an_excluded_feature_is_never_found(self):
        features = torch.eye(4)
        own = np.array([1, -1])
        indices, _ = nearest(features[[1, 2]], features, 9, excluded=own)
        assert indices.shape == (2, 3)
        assert 1 not in indices[0]
        assert indices[1, 0] == 2

    def test_blocks_of_queries_change_nothing(self, monkeypatch):
        features = torch.randn(20, 4, generator=torch.Generator().manual_seed(0))
        wanted = nearest(features, features, 5, excluded=np.arange(20))
        monkeypatch.setattr("mmssprl.features.neighbor_search._QUERIES_AT_A_TIME", 3)
        found = nearest(features, features, 5, excluded=np.arange(20))
        assert torch.equal(found[0], wanted[0])


class TestKnnScores:
    def test_two_neighbours_by_hand(self):
        train = torch.tensor([[1.0, 0.0], [0.0, 2.0], [-3.0, 0.0]])
        labels = torch.tensor([[1, 0], [0, 1], [1, 1]])
        # Cosines 0.6, 0.8 and -0.6: the third is not among the nearest two.
        near, far = math.exp(0.8 / 0.5), math.exp(0.6 / 0.5)
        query = torch.tensor([[3.0, 4.0]])
        found = knn_scores(train, labels, query, num_neighbors=2, temperature=0.5)
        expected = [[far / (near + far), near / (near + far)]]
        assert found.tolist() == [pytest.approx(row, rel=1e-6) for row in expected]

    def test_a_loop_in_float64_with_unknown_labels_and_any_scale(self):
        generator = torch.Generator().manual_seed(0)
        train = torch.randn(40, 6, generator=generator)
        labels = torch.randint(-1, 2, (40, 3), generator=generator)
        test = torch.randn(9, 6, generator=generator)
        labels[:, 2] = -1
        found = knn_scores(train * 7, labels, test, num_neighbors=5, temperature=0.1)
        for i, x in enumerate(test.double()):
            cosines = [float(x @ y / x.norm() / y.norm()) for y in train.double()]
            best = sorted(range(40), key=lambda j: -cosines[j])[:5]
            for k in range(3):
                known = {j: math.exp(cosines[j] / 0.1) for j in best if labels[j, k] >= 0}
                votes = sum(weight for j, weight in known.items() if labels[j, k] == 1)
                expected = votes / sum(known.values()) if known else 0.0
                assert float(found[i, k]) == pytest.approx(expected, abs=1e-5)

    def test_of_fewer_images_than_neighbours_all_are_taken(self):
        x = torch.ones(3, 2)
        assert knn_scores(x, x[:, :1], x, num_neighbors=9).tolist() == [[1.0]] * 3
