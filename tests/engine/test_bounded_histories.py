"""Histories of scalars stay bounded, and what the log says of them stays the same."""

import numpy as np
import pytest
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.logging import HistoryBuffer

from mmssprl.engine import log_processor
from mmssprl.engine.launch import run
from tools.dev.faults.memory import CONFIG

EPOCHS, STEPS = 2, 100


class Observer(Hook):
    """Keeps all losses itself, and what the log says of them."""

    priority = "LOWEST"

    def __init__(self):
        self.losses, self.lines, self.length = HistoryBuffer(), [], 0

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None):
        self.losses.update(outputs["loss"].item())
        latest = runner.log_processor.latest
        if (batch_idx + 1) % 10 == 0:
            self.lines.append((latest["loss"], self.losses.mean(30)))
        histories = runner.message_hub.log_scalars
        self.length = max(len(history.data[0]) for history in histories.values())
        self.hub = runner.message_hub.state_dict()


def observe(folder, monkeypatch, least, **processor):
    monkeypatch.setattr(log_processor, "LEAST", least)
    cfg = Config(CONFIG)
    cfg.work_dir = str(folder)
    cfg.experiment_name = folder.name  # runs of one second would share their histories
    cfg.train_cfg = {"by_epoch": True, "max_epochs": EPOCHS}
    cfg.log_processor.update(window_size=30, **processor)
    observer = Observer()
    run(cfg, "train", hooks=[observer], keep_record=False)
    return observer


@pytest.mark.parametrize(("least", "length"), [(1, 50), (70, 70)])
def test_histories_are_as_long_as_the_log_looks_back(tmp_path, monkeypatch, least, length):
    found = observe(tmp_path, monkeypatch, least)
    assert found.length == length  # of 50 steps an epoch, and a window of 30
    assert len(found.lines) == STEPS // 10
    assert np.allclose(*np.array(found.lines).T, rtol=1e-6)
    assert all(len(h.data[0]) == length for h in found.hub["log_scalars"].values())


@pytest.mark.parametrize(("window", "length"), [(80, 80), ("global", STEPS)])
def test_windows_of_single_scalars_count(tmp_path, monkeypatch, window, length):
    own = {"data_src": "loss_0", "method_name": "mean", "window_size": window}
    assert observe(tmp_path, monkeypatch, 1, custom_cfg=[own]).length == length
