import pytest
from benchmark_runs import done, failed

from mmssprl.experiments.benchmark.results import (
    TransferResult,
    against_baseline,
    aggregate,
    order_weights,
)
from mmssprl.experiments.statistics import Estimate, welch


class TestAggregate:
    def test_mean_and_half_width(self):
        # Deviations -2, 0, 2: s = sqrt(8 / 2) = 2; t(0.975, 2) x 2 / sqrt(3) = 4.303 x 1.1547.
        results = [done("w", "linear-voc", seed, 10.0 + 2 * seed) for seed in range(3)]
        results += [done("w", "segmentation", 0, 7.0), failed("w", "segmentation", 1, "x")]
        assert aggregate(results) == {
            ("w", "linear-voc", "mAP"): Estimate(12.0, pytest.approx(4.968, abs=1e-3), 3),
            ("w", "segmentation", "mIoU"): Estimate(7.0, None, 1),
        }

    def test_a_missing_metric_counts_for_nothing(self):
        results = [
            TransferResult("detection", "w", 0, {"AP": 10.0, "mask_AP": 4.0}, 1.0, "done"),
            TransferResult("detection", "w", 1, {"AP": 14.0}, 1.0, "done"),
        ]
        found = aggregate(results)
        assert found["w", "detection", "AP"] == Estimate(
            12.0, pytest.approx(12.706 * 2, abs=1e-2), 2
        )
        assert found["w", "detection", "mask_AP"] == Estimate(4.0, None, 1)
        assert len(found) == 2

    def test_differences_are_of_all_seeds_of_both(self):
        values = {"w": (31.0, 12.0, 90.0), "random": (10.0, 70.0)}
        results = [
            done(name, "linear-voc", seed, value)
            for name, own in values.items()
            for seed, value in enumerate(own)
        ]
        results.append(done("w", "semisup-1", 0, 5.0))
        expected, _ = welch(*values.values())
        assert against_baseline(results) == {("w", "linear-voc", "mAP"): expected}

    def test_random_and_supervised_come_first(self):
        names = ["z", "supervised", "a", "random", "z"]
        results = [done(name, "linear-voc", seed, 5.0) for seed, name in enumerate(names)]
        assert order_weights(results) == ["random", "supervised", "z", "a"]
