import copy

import pytest
from mmengine.registry import DefaultScope

from mmssprl.experiments.compare.setting import common_options, config_of
from mmssprl.models import NegativeQueue
from mmssprl.pretraining.methods import BY_KEY
from mmssprl.registry import MODELS

NUM_QUEUES = {"mocov2": 1, "densecl": 2, "maskco": 1, "insloc": 3, "detco": 6}


@pytest.mark.parametrize("key", NUM_QUEUES)
def test_every_queue_holds_half_of_the_images_and_the_average_follows_the_steps(key, compare):
    planner = compare().planner
    images = planner.images["test"]
    cfg = copy.deepcopy(config_of(BY_KEY[key], "scenes"))
    shipped = cfg.model.queue_length
    cfg.merge_from_dict(
        common_options(planner.setting, BY_KEY[key], images=images, epochs=5, seed=0, lr_factor=1.0)
    )
    with DefaultScope.overwrite_default_scope("mmssprl"):
        model = MODELS.build(cfg.model)
    queues = [each for each in model.modules() if isinstance(each, NegativeQueue)]
    assert {queue.length for queue in queues} == {images.num_images // 2} != {shipped}
    assert len(queues) == NUM_QUEUES[key]
    steps = 5 * (images.num_images // planner.setting.batch_size)
    assert model.momentum == pytest.approx(max(0, 1 - 1 / (0.07 * steps)), abs=1e-4)
