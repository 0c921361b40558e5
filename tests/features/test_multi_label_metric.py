import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score

from mmssprl.registry import METRICS


def evaluate(scores, labels, batch):
    metric = METRICS.build({"type": "MultiLabelMAP"})
    for start in range(0, len(scores), batch):
        metric.process(
            None,
            [
                {"pred_score": s, "gt_score": t}
                for s, t in zip(
                    scores[start : start + batch], labels[start : start + batch], strict=True
                )
            ],
        )
    return metric.evaluate(len(scores))


@pytest.mark.parametrize("batch", [1, 7, 40])
def test_equals_scikit_learn_with_ties_and_ignored_labels(batch):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randint(0, 5, (40, 3), generator=generator) / 4  # many ties
    labels = torch.randint(-1, 2, (40, 3), generator=generator).float()
    expected = []
    for k in range(3):
        known = labels[:, k].numpy() >= 0
        expected.append(average_precision_score(labels[known, k], scores[known, k]))
    assert evaluate(scores, labels, batch) == {
        "multi-label/mAP": pytest.approx(100 * np.mean(expected))
    }


def test_by_hand():
    # Class 0: ranks P N P -> (1/1 + 2/3) / 2; class 1: the ignored image is not in the list.
    scores = torch.tensor([[0.9, 0.9], [0.8, 0.5], [0.7, 0.1]])
    labels = torch.tensor([[1.0, -1.0], [0.0, 1.0], [1.0, 0.0]])
    assert evaluate(scores, labels, 2)["multi-label/mAP"] == pytest.approx(100 * (5 / 6 + 1) / 2)
