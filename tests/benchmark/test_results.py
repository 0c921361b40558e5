import pytest
from benchmark_runs import done, failed

from mmssprl.benchmark.results import Result, Spread, against_baseline, aggregate, order_weights


class TestAggregate:
    def test_mean_and_sample_deviation(self):
        # Deviations -2, 0, 2: sqrt(8 / 2) = 2; with a divisor of 3 it would be 1.63.
        results = [done("w", "linear-voc", seed, 10.0 + 2 * seed) for seed in range(3)]
        results += [done("w", "segmentation", 0, 7.0), failed("w", "segmentation", 1, "x")]
        assert aggregate(results) == {
            ("w", "linear-voc", "mAP"): Spread(12.0, 2.0, 3),
            ("w", "segmentation", "mIoU"): Spread(7.0, None, 1),
        }

    def test_a_missing_metric_counts_for_nothing(self):
        results = [
            Result("detection", "w", 0, {"AP": 10.0, "mask_AP": 4.0}, 1.0, "done"),
            Result("detection", "w", 1, {"AP": 14.0}, 1.0, "done"),
        ]
        found = aggregate(results)
        assert found["w", "detection", "AP"] == Spread(12.0, pytest.approx(8**0.5), 2)
        assert found["w", "detection", "mask_AP"] == Spread(4.0, None, 1)
        assert len(found) == 2

    def test_differences_pair_the_seeds(self):
        results = [
            done("w", "linear-voc", 2, 31.0),
            done("w", "linear-voc", 0, 12.0),
            done("w", "linear-voc", 5, 90.0),
            done("random", "linear-voc", 0, 10.0),
            done("random", "linear-voc", 1, 70.0),
            done("random", "linear-voc", 2, 30.0),
            done("w", "semisup-1", 0, 5.0),
        ]
        # Seeds 0 and 2: +2 and +1, although the values themselves differ by 20.
        assert against_baseline(results) == {
            ("w", "linear-voc", "mAP"): Spread(1.5, pytest.approx(0.5**0.5), 2)
        }

    def test_random_and_supervised_come_first(self):
        names = ["z", "supervised", "a", "random", "z"]
        results = [done(name, "linear-voc", seed, 5.0) for seed, name in enumerate(names)]
        assert order_weights(results) == ["random", "supervised", "z", "a"]
