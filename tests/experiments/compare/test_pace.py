import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from mmssprl.errors import UserValueError
from mmssprl.experiments.compare import pace
from mmssprl.experiments.compare.images import TrainingImages
from mmssprl.experiments.compare.pace import MethodPace, epochs_for_equal, measure, plan_pace
from mmssprl.experiments.compare.setting import CompareSetting
from mmssprl.pretraining.methods import BY_KEY


@pytest.mark.parametrize(
    ("seconds", "epochs"),
    [(0.75, 7), (0.7, 7), (0.6, 8), (9.0, 1)],  # of 6.67, 7.14, 8.33 and 0.56
)
def test_equal_time_is_the_nearest_number_of_epochs(seconds, epochs):
    measured = MethodPace(seconds, 0.5, 3 * 10**9, 10**9, "a machine")
    assert epochs_for_equal("time", 10, measured, BY_KEY["swav"], 5) == epochs
    assert epochs_for_equal("flops", 10, measured, BY_KEY["swav"], 5) == 3  # of 3.33


def test_the_pass_of_a_teacher_counts_in_equal_time():
    measured = MethodPace(0.5, 0.5, 10**9, 10**9, "a machine", pass_steps=20.0)
    assert epochs_for_equal("time", 10, measured, BY_KEY["distill"], 5) == 6  # 10 - 20 / 5
    assert epochs_for_equal("flops", 10, measured, BY_KEY["distill"], 5) == 10
    with pytest.raises(UserValueError, match=r"4 epochs of SS-PRL are 0.00 of .* --epochs to 5"):
        epochs_for_equal("time", 4, measured, BY_KEY["distill"], 5)


@pytest.mark.parametrize(
    ("num_seeds", "steps"),
    [
        # 4 seeds x 10 epochs x 3 steps of 1 s: 12 s, a tenth, for six turns.
        (4, [3, 3] + [2, 2] * 2),
        (1, [3, 3] + [1, 1] * 2),
        (1000, [3, 3] + [12, 12] * 2),
    ],
)
def test_all_turns_take_at_most_a_tenth_of_the_runs(num_seeds, steps, tmp_path, monkeypatch):
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

    monkeypatch.setattr(pace, "launch", launch)
    monkeypatch.setattr(pace, "read_at_size", lambda *args: None)
    monkeypatch.setattr(pace, "prepare_train_config", lambda *args, **how: SimpleNamespace(**how))
    images = TrainingImages(tmp_path, 24, "digest", {}, 2)
    setting = CompareSetting("scenes", Path("data"), 10, 8)
    run = plan_pace(tmp_path, setting, BY_KEY["swav"], images, num_seeds)
    run.folder.mkdir(parents=True)
    (run.folder / pace.SETTINGS).write_text(json.dumps(run.inputs))
    measure(run.folder)
    measured = json.loads((run.folder / pace.MEASURED).read_text())
    assert timed == steps
    assert measured["flops"] == {"ssprl": 3, "swav": 3}
