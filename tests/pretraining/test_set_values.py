"""How a mistake in a value of ``cfg_options`` is told."""

import pytest
from mmengine.config import Config

from mmssprl.config.reading import refuse
from mmssprl.config.shipped import shipped
from mmssprl.errors import UserValueError
from mmssprl.pretraining.config import set_values, told_by_set

TWO = {"model.momentum": 1.0, "model.neck.out_channels": 9}
BOTH = "model.momentum=1.0 model.neck.out_channels=9"


@pytest.mark.parametrize(
    ("options", "key", "reason", "told"),
    [
        (TWO, "model.momentum", "it is 1.", f"{BOTH}: it is 1."),
        (TWO, "train_dataloader.batch_size", "no.", f"{BOTH}: train_dataloader.batch_size: no."),
        (TWO, "", "no.", f"{BOTH}: no."),
        ({}, "model", "it is 1 (traceback in /tmp/a/b.log).", "model: it is 1."),
    ],
)
def test_a_placed_error_names_the_option_and_no_file(options, key, reason, told, tmp_path):
    (tmp_path / "config.py").touch()
    cfg = Config.fromfile(tmp_path / "config.py")
    with pytest.raises(UserValueError) as caught, told_by_set(options):
        refuse(cfg, key, reason)
    assert str(caught.value) == told


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("model.head.epsilon", "abc", "abc: it must be a number"),
        ("model.head.epsilon", -1.0, "-1.0: epsilon must be > 0"),
        ("optim_wrapper.optimizer.type", "AdmaW", "AdmaW: there is no optimizer"),
        ("optim_wrapper.optimizer.lr", -1, "-1: "),
    ],
)
def test_values_that_nothing_takes_are_refused_by_the_option(key, value, told):
    cfg = Config.fromfile(shipped("configs/ssprl/ssprl_resnet18_scenes.py"))
    with pytest.raises(UserValueError) as caught:
        set_values(cfg, {key: value})
    assert str(caught.value).startswith(f"{key}={told}")
