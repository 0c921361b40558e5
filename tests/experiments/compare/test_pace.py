import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from mmssprl.experiments.compare import pace
from mmssprl.experiments.compare.images import TrainingImages
from mmssprl.experiments.compare.pace import MethodPace, epochs_for_equal, read_paces
from mmssprl.experiments.compare.setting import CompareSetting, code_digest, recipe_digest
from mmssprl.pretraining.methods import BY_KEY


@pytest.mark.parametrize(
    ("seconds", "epochs"),
    [(0.75, 7), (0.7, 7), (0.6, 8), (9.0, 1)],  # of 6.67, 7.14, 8.33 and 0.56
)
def test_equal_time_is_the_nearest_number_of_epochs(seconds, epochs):
    measured = MethodPace(seconds, 0.5, 3 * 10**9, 10**9, "CPU", "a machine")
    assert epochs_for_equal("time", 10, measured, BY_KEY["swav"]) == epochs
    assert epochs_for_equal("flops", 10, measured, BY_KEY["swav"]) == 3  # of 3.33


def test_a_method_is_paced_by_the_steps_that_were_timed_in_its_own_turns(tmp_path):
    setting = CompareSetting("scenes", Path("data"), 6, 64)
    # The machine had become slower by half when a method was added. The first are of other code.
    measured = {2: {"ssprl": 0.4, "swav": 0.1}, 10: {"ssprl": 0.8, "swav-small": 0.4}}
    measured = {1: {"ssprl": 0.1, "swav": 0.1}, **measured, 4: {"ssprl": 0.9, "byol": 0.1}}
    images = TrainingImages(tmp_path, 24, "digest", {}, 2)
    for number, seconds in measured.items():
        recipes = {key: recipe_digest(setting, BY_KEY[key]) for key in seconds}
        flops = dict.fromkeys(seconds, number)
        code = "other" if number == 1 else code_digest()
        values = {"seconds": seconds, "flops": flops, "device": "CPU", "machine": "a machine"}
        file = tmp_path / "paces" / f"{number}" / "result.json"
        file.parent.mkdir(parents=True)
        # Of the fourth the images were others.
        about = {"images": "other" if number == 4 else images.digest, "batch_size": 64}
        settings = {"recipes": recipes, "code": code, **about}
        file.write_text(json.dumps({"settings": settings, "values": values, "seconds": 1.0}))
    found = read_paces(tmp_path, setting, BY_KEY, images)
    assert {key: (p.seconds, p.reference_seconds, p.flops) for key, p in found.items()} == {
        "ssprl": (0.4, 0.4, 2),
        "swav": (0.1, 0.4, 2),
        "swav-small": (0.4, 0.8, 10),
    }


def test_the_operations_are_those_of_one_step_forward_and_backward(tmp_path, monkeypatch):
    ticks = [0]  # seconds of a clock that is moved by hand
    monkeypatch.setattr(pace, "work_ns", lambda: lambda: ticks[0] * 10**9)
    networks = {
        "one": nn.Linear(3, 5),
        "two": nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2)),
    }
    turns = []

    def train(cfg, phase, hooks):
        """Steps of 4 rows, of an epoch that is shorter than the measurement."""
        turns.append(cfg.key)
        [watch] = hooks
        loop = SimpleNamespace(dataloader=[torch.ones(4, 3)] * 2, stop_training=False)
        runner = SimpleNamespace(train_loop=loop)
        watch.before_train(runner)
        for rows in loop.dataloader:
            networks[cfg.key](rows).sum().backward()
            ticks[0] += 1 if cfg.key == "one" else 3  # the second reaches the limit of a turn
        assert loop.stop_training
        assert len(watch.seconds) == (3 if cfg.key == "one" else 2)

    monkeypatch.setattr(pace, "read_at_size", lambda key, size: key)
    monkeypatch.setattr(pace, "prepare_train_config", lambda key, **_: SimpleNamespace(key=key))
    monkeypatch.setattr(pace, "launch", train)
    methods = {key: {"config": key, "size": "photos", "options": {}} for key in networks}
    settings = {"rounds": 2, "steps": 3, "seconds": 6, "methods": methods}
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    pace.measure(tmp_path)
    assert turns == ["one", "two"] * 2
    # A product of (a, b) and (b, c) is 2 a b c. Backward, a layer has as many for its weights and,
    # unless its inputs are the data, as many again for its inputs.
    first, second = 2 * 4 * 3 * 5, 2 * 4 * 5 * 2
    measured = json.loads((tmp_path / "measured.json").read_text())
    assert measured["turns"] == {"one": [[1.0] * 3] * 2, "two": [[3.0] * 2] * 2}
    assert measured["seconds"] == {"one": 1.0, "two": 3.0}
    assert measured["flops"] == {"one": 2 * first, "two": 2 * first + 3 * second}
