import json
from types import SimpleNamespace

import pytest
from helpers.models.small_contrast import make_model
from mmengine.config import Config
from mmengine.logging import MessageHub
from torch.utils.data import DataLoader

from mmssprl.experiments.compare import training


@pytest.mark.parametrize(
    ("spreads", "rank", "collapsed"),
    [((0.9, 0.9, 0.2, 0.1), 4.9, True), ((0.2, 0.1, 0.9, 0.9), 4.9, False)]
    # As healthy runs show it, too; and without a rank.
    + [((0.9, 0.9, 0.2, 0.1), 5.1, False), ((0.9, 0.9, 0.2, 0.1), None, False)],
)
def test_loss_and_collapse_are_those_of_the_last_epoch(spreads, rank, collapsed):
    hub = MessageHub(f"two epochs of two steps, {rank} and {spreads}")
    for spread, loss in zip(spreads, (9.0, 8.0, 3.0, 1.0), strict=True):
        hub.update_scalars({"train/embedding_spread": spread, "train/loss": loss})
    for each in () if rank is None else (30.0, rank):  # of some steps only
        hub.update_scalar("train/effective_rank", each)
    loader = DataLoader(range(16), batch_size=8)
    meter = training.Meter(Config({}), seed=0)
    hub.update_info("compare_seconds", 1.0)
    about = {"message_hub": hub, "model": make_model(), "hooks": []}
    meter.after_train(SimpleNamespace(iter=4, train_dataloader=loader, **about))
    assert meter.measured["loss"] == 2.0
    assert meter.measured["embedding_spread"] == pytest.approx(sum(spreads[2:]) / 2)
    assert meter.measured["collapsed"] is collapsed


def test_a_training_whose_weights_are_gone_is_done_again(tmp_path, monkeypatch):
    (tmp_path / training.SETTINGS).write_text('{"trains": true}')
    trained = tmp_path / "trained.json"
    trained.write_text('{"weights": "gone.pth", "steps": 1}')
    done = {"weights": "new.pth", "steps": 2}
    monkeypatch.setattr(training, "_train", lambda folder, settings: dict(done))
    monkeypatch.setattr(training, "_probe", lambda weights, settings: {"mAP": 0.5})
    training.train_and_probe(tmp_path)
    assert json.loads(trained.read_text()) == done
    assert json.loads((tmp_path / training.MEASURED).read_text())["steps"] == 2
