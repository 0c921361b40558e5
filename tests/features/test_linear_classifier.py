import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from mmssprl.features import fit_linear_probe, linear_classifier, mean_average_precision


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
        probe = fit_linear_probe(features, labels, strengths=[strength])
        x = ((features - features.mean(0)) / features.std(0, correction=0)).double().numpy()
        for k in range(3):
            known = (labels[:, k] >= 0).numpy()
            reference = LogisticRegression(
                C=1 / (strength * known.sum()), tol=1e-8, max_iter=1000
            ).fit(x[known], labels[known, k].numpy())
            np.testing.assert_allclose(
                probe.weight[k].numpy(), reference.coef_[0], rtol=1e-2, atol=3e-3
            )
            np.testing.assert_allclose(
                probe.bias[k].item(), reference.intercept_[0], rtol=1e-2, atol=3e-3
            )
            np.testing.assert_allclose(
                probe(features)[:, k].numpy(), reference.decision_function(x), rtol=1e-2, atol=2e-2
            )

    def test_separable_classes_are_told_apart_on_unseen_images(self):
        generator = torch.Generator().manual_seed(0)
        labels = torch.randint(0, 2, (300, 4), generator=generator)
        features = torch.cat(
            [labels * 2.0 - 1 + 0.1 * torch.randn(300, 4, generator=generator)] * 3, dim=1
        )
        probe = fit_linear_probe(features[:200], labels[:200])
        assert mean_average_precision(probe(features[200:]), labels[200:])[0] == 1.0

    def test_labels_without_relation_score_about_their_share(self):
        generator = torch.Generator().manual_seed(0)
        features = torch.randn(2000, 20, generator=generator)
        labels = (torch.rand(2000, 5, generator=generator) < 0.3).long()
        probe = fit_linear_probe(features[:500], labels[:500])
        score, _ = mean_average_precision(probe(features[500:]), labels[500:])
        assert 0.25 < score < 0.36

    def test_an_unknown_label_has_no_influence_on_its_class(self):
        features, labels = toy()
        masked = labels.clone()
        masked[:20, 0] = -1
        changed = fit_linear_probe(features, masked, strengths=[0.1])
        # The same features standardise alike, so the class must fit as on the other rows alone.
        weights = LogisticRegression(C=1 / (0.1 * 100), tol=1e-8, max_iter=1000).fit(
            ((features[20:] - features.mean(0)) / features.std(0, correction=0)).numpy(),
            labels[20:, 0].numpy(),
        )
        np.testing.assert_allclose(changed.weight[0].numpy(), weights.coef_[0], atol=3e-3)
        untouched = fit_linear_probe(features, labels, strengths=[0.1])
        torch.testing.assert_close(changed.weight[1:], untouched.weight[1:], atol=3e-3, rtol=0)
        assert (changed.weight[0] - untouched.weight[0]).abs().max() > 1e-2

    def test_an_image_with_only_unknown_labels_has_no_influence_at_all(self):
        features, labels = toy()
        labels[5] = -1
        other = features.clone()
        other[5] = 1e3
        first, second = (fit_linear_probe(x, labels) for x in (features, other))
        assert torch.equal(first.weight, second.weight)
        assert torch.equal(first.mean, second.mean)
        assert first.held_out == second.held_out

    def test_scale_and_offset_of_a_feature_do_not_matter(self):
        features, labels = toy()
        factors = torch.tensor([1e-3, 1.0, 1e3, 0.5, 7.0, 40.0])
        first = fit_linear_probe(features, labels)
        second = fit_linear_probe(features * factors + factors, labels)
        assert second.strength == first.strength
        torch.testing.assert_close(
            second(features * factors + factors), first(features), atol=2e-2, rtol=1e-2
        )

    def test_a_feature_that_varies_by_rounding_only_is_ignored(self):
        features, labels = toy()
        constant = torch.full((120, 1), 100.0)
        # One float32 step, where the first class is present: it would be a perfect clue.
        rounded = torch.where(labels[:, :1] == 1, constant.nextafter(2 * constant), constant)
        probe = fit_linear_probe(torch.cat([features, rounded], 1), labels)
        later = torch.cat([features, torch.full((120, 1), 50.0)], 1)
        expected = fit_linear_probe(features, labels)(features)
        torch.testing.assert_close(probe(later), expected, atol=2e-2, rtol=1e-2)

    def test_takes_the_best_of_the_penalties_on_left_out_images(self):
        features, labels = toy(num=60, channels=50)
        probe = fit_linear_probe(features, labels, strengths=(1e-4, 1.0, 0.01), seed=3)
        assert list(probe.held_out) == [1.0, 0.01, 1e-4]
        assert probe.held_out[probe.strength] == max(probe.held_out.values())
        # Judged on the training images themselves, no penalty at all would look best.
        assert probe.held_out[1e-4] < 0.95
        alone = fit_linear_probe(features, labels, strengths=[probe.strength])
        torch.testing.assert_close(alone.weight, probe.weight)

    @pytest.mark.parametrize("num_folds", [2, 5])
    def test_folds_that_are_fitted_side_by_side_score_as_one_by_one(self, num_folds):
        features, labels = toy(num=123, channels=20)  # not all folds are equally long
        labels[::9, 2] = -1
        probe = fit_linear_probe(
            features, labels, strengths=(1.0, 0.1), num_folds=num_folds, seed=3
        )
        fold = torch.empty(123, dtype=torch.long)
        fold[torch.randperm(123, generator=torch.Generator().manual_seed(3))] = (
            torch.arange(123) % num_folds
        )
        for strength, score in probe.held_out.items():
            logits = torch.empty(123, 3)
            for i in range(num_folds):
                kept = fold != i
                alone = fit_linear_probe(features[kept], labels[kept], strengths=[strength])
                logits[fold == i] = alone(features[fold == i])
            assert score == pytest.approx(mean_average_precision(logits, labels)[0], abs=2e-3)

    def test_parts_of_any_length_are_fitted_side_by_side_as_alone(self):
        features, labels = toy(num=118, channels=80, classes=4)  # more features than some have rows
        labels[::9, 2] = -1
        parts = list(torch.arange(118).split([50, 56, 12]))
        together = linear_classifier._Fit(features, labels, parts).minimise(0.1, 1e-5)
        for rows, found in zip(parts, together, strict=True):
            alone = fit_linear_probe(features[rows], labels[rows], strengths=[0.1])
            torch.testing.assert_close(found.weight, alone.weight, atol=2e-3, rtol=0)
            torch.testing.assert_close(found.bias, alone.bias, atol=2e-3, rtol=0)
            assert alone.weight.abs().max() > 0.2

    def test_stops_once_weaker_penalties_no_longer_help(self):
        features, labels = toy(num=60, channels=50)
        tried = list(fit_linear_probe(features, labels).held_out.values())
        best = tried.index(max(tried))
        assert len(tried) <= best + 1 + 2

    def test_works_under_no_grad_and_twice_alike(self):
        features, labels = toy()
        with torch.no_grad():
            first = fit_linear_probe(features, labels, seed=1)
        second = fit_linear_probe(features, labels, seed=1)
        assert torch.equal(first.weight, second.weight)
        assert first.weight.abs().max() > 0

    def test_rejects_what_it_cannot_fit(self):
        features, labels = toy()
        with pytest.raises(ValueError, match=r"but got \(119, 6\) and \(120, 3\)"):
            fit_linear_probe(features[1:], labels)
        with pytest.raises(ValueError, match="at least 10 labelled images, but got 9"):
            fit_linear_probe(features[:9], labels[:9])
        with pytest.raises(ValueError, match="features must be finite"):
            fit_linear_probe(features / 0, labels)
        with pytest.raises(ValueError, match=r"strengths must be penalties > 0, but got \(0.0,\)"):
            fit_linear_probe(features, labels, strengths=(0.0,))
        with pytest.raises(ValueError, match="num_folds must be from 2 to 10, but got 1"):
            fit_linear_probe(features, labels, num_folds=1)
