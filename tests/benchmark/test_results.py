import json
import math

import numpy as np
import pytest
from benchmark_runs import done, failed

from mmssprl.benchmark.results import Result, Spread, against_baseline, aggregate, order_weights


class TestResult:
    def test_metrics_are_plain_numbers_in_the_order_of_the_tables(self):
        result = Result("detection", "w", 3, {"mask_AP": np.float32(19.5), "AP": 20.0}, 7.5, "done")
        assert json.dumps(result.metrics) == '{"AP": 20.0, "mask_AP": 19.5}'

    @pytest.mark.parametrize(
        ("metrics", "message"),
        [
            ({"mAP": math.nan}, r"mAP=nan; leave out what is missing\."),
            ({"mAP": 100.5}, r"linear-voc must be percent in \[0, 100\].*mAP=100\.5"),
            ({"mAP": -1.0}, r"mAP=-1\.0"),
            ({"AP": 1.0}, r"names mAP, but got AP=1\.0"),
        ],
    )
    def test_refuses(self, metrics, message):
        with pytest.raises(ValueError, match=message):
            Result("linear-voc", "w", 0, metrics, 1.0, "done")

    @pytest.mark.parametrize("value", [0.0, 100.0])
    def test_the_ends_of_the_range_are_percent_too(self, value):
        assert done("w", "linear-voc", 0, value).metrics == {"mAP": value}


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

    def test_a_run_must_not_come_twice(self):
        results = [failed("w", "linear-voc", 0, "x"), done("w", "linear-voc", 0, 5.0)]
        with pytest.raises(ValueError, match=r"got \('w', 'linear-voc', 0\) twice; keep the last"):
            aggregate(results)

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
