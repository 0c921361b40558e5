import math

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score

from mmssprl.features import mean_average_precision


class TestMeanAveragePrecision:
    def test_equals_hand_made_areas(self):
        # Ranked: + - + -, so precision 1 at recall 1/2 and 2/3 at recall 1.
        scores = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]])
        labels = torch.tensor([[1, 1], [0, 0], [1, 0], [0, 0]])
        mean, areas = mean_average_precision(scores, labels)
        assert areas == pytest.approx([(1 + 2 / 3) / 2, 1 / 4])
        assert mean == pytest.approx((5 / 6 + 1 / 4) / 2)

    def test_equals_scikit_learn_with_ties(self):
        rng = np.random.default_rng(0)
        scores = rng.integers(0, 6, (200, 5)) / 6
        labels = rng.integers(0, 2, (200, 5))
        _, areas = mean_average_precision(torch.tensor(scores), torch.tensor(labels))
        expected = [average_precision_score(labels[:, k], scores[:, k]) for k in range(5)]
        assert areas == pytest.approx(expected)

    def test_a_constant_score_earns_the_share_of_positives_in_any_order(self):
        labels = torch.tensor([[1], [1], [0], [0], [0]])
        for order in (labels, labels.flip(0)):
            assert mean_average_precision(torch.zeros(5, 1), order)[0] == pytest.approx(0.4)

    def test_unknown_labels_do_not_count(self):
        scores = torch.tensor([[0.9], [0.8], [0.7], [0.6]])
        labels = torch.tensor([[-1], [1], [-1], [0]])
        assert mean_average_precision(scores, labels)[0] == 1.0

    def test_a_class_without_positives_is_left_out_of_the_mean(self):
        mean, areas = mean_average_precision(
            torch.tensor([[0.2, 0.1], [0.1, 0.3]]), torch.tensor([[1, 0], [0, -1]])
        )
        assert mean == 1.0
        assert math.isnan(areas[1])

    def test_rejects_what_it_cannot_score(self):
        labels = torch.tensor([[1], [0]])
        with pytest.raises(ValueError, match=r"\(images, classes\), but got \(2, 2\) and \(2, 1\)"):
            mean_average_precision(torch.zeros(2, 2), labels)
        with pytest.raises(ValueError, match="scores must be finite"):
            mean_average_precision(torch.tensor([[math.nan], [0.0]]), labels)
        with pytest.raises(ValueError, match="at least one positive, but got none in 2 images"):
            mean_average_precision(torch.zeros(2, 1), labels * 0)
