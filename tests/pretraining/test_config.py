import pytest
from helpers.pretraining.recipes import COCO, CPU, choose

from mmssprl.datasets import UnlabeledImages
from mmssprl.pretraining.config import make_config
from mmssprl.pretraining.options import PretrainOptions


@pytest.mark.parametrize(
    ("device", "epochs", "interval"),
    [
        (CPU, 2, 1),
        (CPU, 40, 7),  # 1,480 steps in about 200 lines
        (CPU, 4000, 37),  # a line an epoch
        (COCO, 2, 50),
    ],
)
def test_lines_of_progress(device, epochs, interval, tmp_path):
    recipe = choose(**device, epochs=epochs)
    images = UnlabeledImages.__new__(UnlabeledImages)  # nothing is read
    images.data_root, images.max_bad_share = str(tmp_path), 0.01
    cfg = make_config(recipe, PretrainOptions(), images)
    assert recipe.steps_per_epoch >= interval
    assert cfg.default_hooks.logger.interval == interval
