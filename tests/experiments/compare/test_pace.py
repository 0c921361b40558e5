from types import SimpleNamespace

import pytest

from mmssprl.errors import UserValueError
from mmssprl.experiments.compare import pace
from mmssprl.experiments.compare.pace import SECONDS, STEPS, epochs_for_equal
from mmssprl.experiments.run import MEASURED, SETTINGS, read_json, write_json


def paces(key, seconds, passes=0.0):
    return {
        "seconds": {key: seconds, "ssprl": 0.5},
        "flops": {key: 3 * 10**9, "ssprl": 10**9},
        "passes": {key: passes},
    }


def test_equal_time_is_the_nearest_number_of_epochs():
    for seconds, epochs in ((0.75, 7), (0.6, 8), (9.0, 1)):  # of 6.67, 8.33 and 0.56
        assert epochs_for_equal("time", 10, paces("swav", seconds), "swav", 5, 5) == epochs
        assert epochs_for_equal("flops", 10, paces("swav", seconds), "swav", 5, 5) == 3  # of 3.33


def test_the_pass_of_a_teacher_counts_in_equal_time():
    measured = paces("distill", 0.5, passes=10.0)
    assert epochs_for_equal("time", 10, measured, "distill", 5, 5) == 6  # 10 - 20 / 5
    assert epochs_for_equal("flops", 10, measured, "distill", 5, 5) == 3
    with pytest.raises(UserValueError, match=r"4 epochs of SS-PRL are 0.00 of .* --epochs to 5"):
        epochs_for_equal("time", 4, measured, "distill", 5, 5)


@pytest.mark.parametrize(("run_steps", "limit_s"), [(120, 2.0), (30, 0.5), (10_000, SECONDS)])
def test_all_turns_take_at_most_a_tenth_of_the_runs(run_steps, limit_s, tmp_path, monkeypatch):
    limits = []

    def launch(cfg, kind, hooks):
        [watch] = hooks
        limits.append((watch.most, watch.max_seconds))
        watch.seconds = [1.0]
        watch.flops = 3 * watch.counts_flops
        watch.runner = SimpleNamespace(hooks=[])

    monkeypatch.setattr(pace, "launch", launch)
    monkeypatch.setattr(pace, "read_row", lambda settings: None)
    monkeypatch.setattr(pace, "prepare_train_config", lambda *args, **how: SimpleNamespace(**how))
    methods = dict.fromkeys(("ssprl", "swav"), {"config": "", "size": "", "options": {}})
    write_json(tmp_path / SETTINGS, {"methods": methods, "run_steps": run_steps})
    pace.time_steps(tmp_path)
    # Steps of 1 s; a tenth is for six turns.
    assert limits == [(3, SECONDS)] * 2 + [(STEPS, limit_s)] * 4
    measured = read_json(tmp_path / MEASURED)
    assert measured["flops"] == {"ssprl": 3, "swav": 3}
