import pytest
from helpers.pretraining.recipes import COCO, CPU, choose, config_of
from mmengine.config import Config

from mmssprl.config.shipped import shipped
from mmssprl.errors import UserValueError
from mmssprl.pretraining.config import set_values
from mmssprl.pretraining.options import PretrainOptions
from mmssprl.pretraining.plan import plan_pretraining


@pytest.mark.parametrize(
    ("device", "epochs", "interval"), [(CPU, 2, 1), (CPU, 40, 3), (CPU, 4000, 18), (COCO, 2, 50)]
)
def test_lines_of_progress(device, epochs, interval):
    cfg = config_of(choose(**device, epochs=epochs))
    assert cfg.default_hooks.logger.interval == interval


@pytest.mark.parametrize("key", ["model.head.epsilon", "optim_wrapper.optimizer.lr"])
def test_bad_values_of_cfg_options_are_refused(key):
    cfg = Config.fromfile(shipped("configs/ssprl/ssprl_resnet18_scenes.py"))
    with pytest.raises(UserValueError, match=rf"^cfg_options {key}=-1: .*-1"):
        set_values(cfg, {key: -1})


@pytest.mark.parametrize("options", [{"train_cfg.max_epochs": 3}, {"train_cfg": {"max_epochs": 3}}])
def test_a_budget_with_epochs_is_refused(options, tmp_path):
    asked = PretrainOptions(budget="2h", cfg_options=options)
    with pytest.raises(UserValueError, match="budget .*epochs"):
        plan_pretraining("no images", tmp_path, asked)
