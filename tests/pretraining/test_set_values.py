"""How a mistake in a value of ``cfg_options`` is told."""

import pytest
from mmengine.config import Config

from mmssprl.config.reading import refuse
from mmssprl.config.shipped import shipped
from mmssprl.errors import UserValueError
from mmssprl.pretraining.config import set_values, told_by_set


@pytest.mark.parametrize(
    ("options", "told"),
    [({"a": 1}, "cfg_options (--set): model: it is 1."), ({}, "model: it is 1.")],
)
def test_a_placed_error_names_the_option_and_no_file(options, told, tmp_path):
    (tmp_path / "config.py").touch()
    cfg = Config.fromfile(tmp_path / "config.py")
    with pytest.raises(UserValueError) as caught, told_by_set(options):
        refuse(cfg, "model", "it is 1 (traceback in /tmp/a/b.log).")
    assert str(caught.value) == told


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("model.head.epsilon", "abc", "it must be a number.*'abc'"),
        ("model.head.epsilon", -1.0, "epsilon must be > 0"),
        ("optim_wrapper.optimizer.type", "AdmaW", "there is no optimizer"),
        ("optim_wrapper.optimizer.lr", -1, "-1"),
    ],
)
def test_values_that_nothing_takes_are_refused_by_the_option(key, value, told):
    cfg = Config.fromfile(shipped("configs/ssprl/ssprl_resnet18_scenes.py"))
    with pytest.raises(UserValueError, match=rf"^cfg_options \(--set\): .*{told}"):
        set_values(cfg, {key: value})
