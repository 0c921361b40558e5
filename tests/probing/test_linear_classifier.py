import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score

from mmssprl.probing import fit_linear_probe, mean_average_precision
from mmssprl.probing.linear_classifier import fit_grouped_probe, fit_softmax_probe
from mmssprl.registry import METRICS


def toy(num=120, channels=6, classes=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(num, channels, generator=generator)
    directions = torch.randn(channels, classes, generator=generator)
    noise = torch.randn(num, classes, generator=generator)
    return features, ((features @ directions + noise) > 0).long()


class TestFitLinearProbe:
    @pytest.mark.parametrize("strength", [1.0, 0.1, 0.01])
    def test_reaches_the_minimum_that_scikit_learn_finds(self, strength):
        features, labels = toy()
        labels[::7, 1] = -1
        # A row without a known label has no influence at all.
        with_unknown = torch.cat([features, torch.full((1, 6), 1e3)])
        of_unknown = torch.cat([labels, torch.full((1, 3), -1)])
        probe = fit_linear_probe(with_unknown, of_unknown, strengths=[strength])

        x = ((features - features.mean(0)) / features.std(0, correction=0)).double().numpy()
        for k in range(3):
            known = (labels[:, k] >= 0).numpy()
            reference = LogisticRegression(C=1 / (strength * known.sum()), tol=1e-8, max_iter=1000)
            reference.fit(x[known], labels[known, k].numpy())
            for found, wanted, atol in (
                (probe.weight[k], reference.coef_[0], 3e-3),
                (probe.bias[k], reference.intercept_[0], 3e-3),
                (probe(features)[:, k], reference.decision_function(x), 2e-2),
            ):
                np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-2, atol=atol)

    def test_a_class_that_all_images_show_is_fitted(self):
        generator = torch.Generator().manual_seed(0)
        # Features that are nearly alike have axes of large variance, and 24 x (1 / 24) is above 1.
        alike = torch.randn(24, 2, generator=generator) @ torch.randn(2, 512, generator=generator)
        features = alike + 0.01 * torch.randn(24, 512, generator=generator)
        labels = torch.ones(24, 1, dtype=torch.int8)
        assert (fit_linear_probe(features, labels)(features) > 5).all()

    @pytest.mark.parametrize("num_folds", [2, 5])
    def test_the_penalty_is_the_best_on_folds_that_are_left_out(self, num_folds):
        features, labels = toy(num=123, channels=20)  # folds of different length
        labels[::9, 2] = -1
        options = {"strengths": (1e-4, 1.0, 0.1), "num_folds": num_folds}
        probe = fit_linear_probe(features, labels, **options, seed=3)

        assert list(probe.held_out) == [1.0, 0.1, 1e-4]
        assert probe.held_out[probe.strength] == max(probe.held_out.values())
        with torch.no_grad():
            alone = fit_linear_probe(features, labels, strengths=[probe.strength])
        torch.testing.assert_close(alone.weight, probe.weight)

        order = torch.randperm(123, generator=torch.Generator().manual_seed(3))
        fold = order.argsort() % num_folds
        for strength, score in probe.held_out.items():
            logits = torch.empty(123, 3)
            for i in range(num_folds):
                kept = fold != i
                alone = fit_linear_probe(features[kept], labels[kept], strengths=[strength])
                logits[~kept] = alone(features[~kept])
            assert score == pytest.approx(mean_average_precision(logits, labels)[0], abs=2e-3)


def test_too_few_labelled_images_are_refused():
    features, labels = toy()
    labels[9:] = -1
    with pytest.raises(ValueError, match="at least 10 .* 9"):
        fit_linear_probe(features, labels)


def test_scores_without_a_positive_image_are_refused():
    labels = torch.tensor([[0], [0]])
    with pytest.raises(ValueError, match=r"positive.* none in 2 images"):
        mean_average_precision(torch.zeros(2, 1), labels)


def test_rows_of_a_group_are_in_one_fold():
    features = torch.eye(12).repeat_interleave(2, dim=0)  # each row twice, unlike all others
    labels = torch.tensor([1, 0]).repeat(6).repeat_interleave(2)[:, None]
    options = {"strengths": (1.0, 0.1), "num_folds": 2}
    pairs = torch.arange(12).repeat_interleave(2)
    apart = fit_linear_probe(features, labels, **options)
    together = fit_grouped_probe(features, labels, pairs, **options)
    assert max(together.held_out.values()) < 0.8 < min(apart.held_out.values())


@pytest.mark.parametrize("fit", [fit_grouped_probe, fit_softmax_probe])
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("where", [(3, slice(None)), (slice(None), 2), (5, 1)])
def test_features_that_are_not_finite_are_refused_in_one_line(fit, value, where):
    features, labels = toy()
    features[where] = value
    with pytest.raises(ValueError, match="but got none: the network has diverged .* lower"):
        fit(features, labels.float(), torch.arange(len(labels)))


@pytest.mark.parametrize("scale", [0, 1e-42, 1e-30, 1e-12, 1e18, 1e30])
@pytest.mark.parametrize("shift", [0, 0.7])
def test_features_that_are_nearly_alike_are_fitted(scale, shift):
    features, labels = toy()
    logits = fit_linear_probe(scale * features + shift, labels)(scale * features + shift)
    assert logits.isfinite().all()


@pytest.mark.parametrize("batch", [1, 7, 40])
def test_the_metric_equals_scikit_learn(batch):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randint(0, 5, (40, 4), generator=generator) / 4  # many ties
    labels = torch.randint(-1, 2, (40, 4), generator=generator).float()
    labels[:, 3].clamp_(max=0)  # a class without a positive image

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
