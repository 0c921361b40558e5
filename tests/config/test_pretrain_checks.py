import helpers.models.agreement  # noqa: F401  registers a method that takes neither parts nor compilation
import pytest
from mmengine.config import Config

from mmssprl.config.pretrain_checks import check_pretraining

ACCUMULATES = "optim_wrapper.accumulative_counts"


def config(**overrides):
    parts = {"model": {"type": "SSPRL"}, "train_dataloader": {"batch_size": 8}}
    parts["optim_wrapper"] = {"type": "OptimWrapper"}
    cfg = Config(parts, filename="own.py", cfg_text="# made by the test")
    cfg.merge_from_dict(overrides)
    return cfg


def test_good_configs_pass():
    check_pretraining(config())
    check_pretraining(config(**{"model.num_chunks": 4, ACCUMULATES: 1}))
    other = {"model.type": "MultiLabelClassifier", ACCUMULATES: 4}
    check_pretraining(config(**other))
    check_pretraining(Config({}))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model.type": "mmssprl.SSPRL", ACCUMULATES: 4}, "counts: .*got 4; .*num_chunks"),
        ({"model.type": "Agreement", ACCUMULATES: 4}, r"accumulative_counts: .* leave it out\.$"),
    ],
)
def test_a_batch_is_seen_in_parts_that_the_method_can_take(values, message):
    with pytest.raises(ValueError, match=f"^own.py: .*{message}"):
        check_pretraining(config(**values))


def test_crops_of_other_views_than_the_model_s_are_refused():
    views = {"image_px": 32, "image_area": (0.14, 1.0)}
    crop = {"type": "PyramidCrop", "layout": views}
    cfg = config(**{"model.layout": views, "train_dataloader.dataset": {"pipeline": [crop]}})
    check_pretraining(cfg)
    cfg.train_dataloader.dataset.pipeline[0].layout = {**views, "image_area": (0.3, 1.0)}
    with pytest.raises(ValueError, match=r"pipeline.0.layout: .*model.layout"):
        check_pretraining(cfg)
