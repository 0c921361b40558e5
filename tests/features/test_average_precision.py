"""Mean average precision, as a function and as the metric of a runner."""

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score

from mmssprl.features import mean_average_precision
from mmssprl.registry import METRICS


def test_hand_made_areas():
    # Ranked: + - + -, so precision 1 at recall 1/2 and 2/3 at recall 1.
    scores = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]])
    labels = torch.tensor([[1, 1], [0, 0], [1, 0], [0, 0]])
    mean, areas = mean_average_precision(scores, labels)
    assert areas == pytest.approx([(1 + 2 / 3) / 2, 1 / 4])
    assert mean == pytest.approx((5 / 6 + 1 / 4) / 2)


def test_a_constant_score_earns_the_share_of_positives_in_any_order():
    labels = torch.tensor([[1], [1], [0], [0], [0]])
    for order in (labels, labels.flip(0)):
        assert mean_average_precision(torch.zeros(5, 1), order)[0] == pytest.approx(0.4)


def test_unknown_labels_and_classes_without_positives_do_not_count():
    scores = torch.tensor([[0.9, 0.2], [0.8, 0.1], [0.7, 0.3], [0.6, 0.4]])
    labels = torch.tensor([[-1, 0], [1, -1], [-1, 0], [0, -1]])
    mean, areas = mean_average_precision(scores, labels)
    assert mean == 1.0
    assert math.isnan(areas[1])


def test_what_cannot_be_scored_is_refused():
    labels = torch.tensor([[1], [0]])
    with pytest.raises(ValueError, match="finite"):
        mean_average_precision(torch.tensor([[math.nan], [0.0]]), labels)
    with pytest.raises(ValueError, match=r"positive.* none in 2 images"):
        mean_average_precision(torch.zeros(2, 1), labels * 0)


@pytest.mark.parametrize("batch", [1, 7, 40])
def test_the_metric_equals_scikit_learn_with_ties_and_ignored_labels(batch):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randint(0, 5, (40, 3), generator=generator) / 4  # many ties
    labels = torch.randint(-1, 2, (40, 3), generator=generator).float()
    metric = METRICS.build({"type": "MultiLabelMAP"})
    pairs = list(zip(scores, labels, strict=True))
    for start in range(0, 40, batch):
        part = pairs[start : start + batch]
        metric.process(None, [{"pred_score": s, "gt_score": t} for s, t in part])
    known = [labels[:, k].numpy() >= 0 for k in range(3)]
    areas = [
        average_precision_score(labels[is_in, k], scores[is_in, k]) for k, is_in in enumerate(known)
    ]
    assert metric.evaluate(40) == {"multi-label/mAP": pytest.approx(100 * np.mean(areas))}
