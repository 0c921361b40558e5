import json
from types import SimpleNamespace

import pytest

from mmssprl.errors import UserValueError
from mmssprl.experiments.compare import pace as module
from mmssprl.experiments.compare.pace import epochs_for_equal, time_steps
from mmssprl.pretraining.methods import BY_KEY


def pace(key, seconds, passes=0.0):
    return {
        "seconds": {key: seconds, "ssprl": 0.5},
        "flops": {key: 3 * 10**9, "ssprl": 10**9},
        "passes": {key: passes},
    }


def test_equal_time_is_the_nearest_number_of_epochs():
    for seconds, epochs in ((0.75, 7), (0.6, 8), (9.0, 1)):  # of 6.67, 8.33 and 0.56
        assert epochs_for_equal("time", 10, pace("swav", seconds), "swav", 5) == epochs
        assert epochs_for_equal("flops", 10, pace("swav", seconds), "swav", 5) == 3  # of 3.33


def test_the_pass_of_a_teacher_counts_in_equal_time():
    measured = pace("distill", 0.5, passes=10.0)
    assert epochs_for_equal("time", 10, measured, "distill", 5) == 6  # 10 - 20 / 5
    assert epochs_for_equal("flops", 10, measured, "distill", 5) == 3
    with pytest.raises(UserValueError, match=r"4 epochs of SS-PRL are 0.00 of .* --epochs to 5"):
        epochs_for_equal("time", 4, measured, "distill", 5)


@pytest.mark.parametrize(
    ("num_seeds", "steps"),
    [
        # 4 seeds x 10 epochs x 3 steps of 1 s: 12 s, a tenth, for six turns.
        (4, [3, 3] + [2, 2] * 2),
        (1, [3, 3] + [1, 1] * 2),
        (1000, [3, 3] + [4, 4] * 2),
    ],
)
def test_all_turns_take_at_most_a_tenth_of_the_runs(num_seeds, steps, compare, monkeypatch):
    timed = []

    def launch(cfg, kind, hooks):
        watch, seconds = hooks[0], []
        while len(seconds) < watch.least or (
            len(seconds) < watch.most and sum(seconds) < watch.max_seconds
        ):
            seconds.append(1.0)
        watch.seconds, watch.flops = seconds, 3 * watch.counts_flops
        watch.runner = SimpleNamespace(hooks=[])
        timed.append(len(seconds))

    monkeypatch.setattr(module, "launch", launch)
    monkeypatch.setattr(module, "read_at_size", lambda *args: None)
    monkeypatch.setattr(module, "prepare_train_config", lambda *args, **how: SimpleNamespace(**how))
    run = compare(epochs=10, seeds=num_seeds).pace_run(BY_KEY["swav"])
    run.folder.mkdir(parents=True)
    (run.folder / module.SETTINGS).write_text(json.dumps(run.inputs))
    time_steps(run.folder)
    assert timed == steps
    measured = json.loads((run.folder / module.MEASURED).read_text())
    assert measured["flops"] == {"ssprl": 3, "swav": 3}
