from pathlib import Path

from mmssprl.compare.plan import Planner
from mmssprl.compare.results import Result, choose_factors
from mmssprl.compare.setting import Setting


def test_a_collapsed_run_counts_with_its_score_when_a_rate_is_chosen():
    scores = {  # of both seeds
        "swav": {1 / 3: (0.2, 0.2), 1.0: (0.3, 0.3), 3.0: (0.4, 0.1)},
        "ssprl": {1 / 3: (0.2, 0.2), 1.0: (0.3, 0.3), 3.0: (0.4, 0.4)},
    }
    collapsed = {("swav", 3.0, 1001), ("ssprl", 3.0, 1000), ("ssprl", 3.0, 1001)}
    results = [
        Result(key, seed, 6, factor, mAP, 0.1, collapsed=(key, factor, seed) in collapsed)
        for key, rates in scores.items()
        for factor, pair in rates.items()
        for seed, mAP in zip((1000, 1001), pair, strict=True)
    ]
    planner = Planner(Path("work"), Setting("scenes", Path("data"), 6), {}, {})
    assert choose_factors(results, planner) == {"swav": 1.0, "ssprl": 3.0}
