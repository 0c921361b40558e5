import helpers.models.agreement  # noqa: F401  registers a method that takes neither parts nor compilation
import pytest
from mmengine.config import Config

from mmssprl.config.pretrain_checks import check_pretraining, require_pretrain_hook

ACCUMULATES = "optim_wrapper.accumulative_counts"
VIEWS = {"image_px": 32, "image_area": (0.14, 1.0)}


def check(**overrides):
    parts = {"model": {"type": "SSPRL", "layout": VIEWS}, "train_dataloader": {"batch_size": 8}}
    parts["optim_wrapper"] = {"type": "OptimWrapper"}
    cfg = Config(parts, filename="own.py", cfg_text="# made by the test")
    cfg.merge_from_dict(overrides)
    check_pretraining(cfg)


def cropped(**changes):
    crop = {"type": "PyramidCrop", "layout": {**VIEWS, **changes}}
    return {"train_dataloader.dataset": {"pipeline": [crop]}}


@pytest.mark.parametrize(
    "values",
    [
        cropped(),
        {"model.num_chunks": 4, ACCUMULATES: 1},
        {"model.type": "MultiLabelClassifier", ACCUMULATES: 4},
    ],
)
def test_a_good_config_passes(values):
    check(**values)


def test_a_config_without_a_model_passes():
    check_pretraining(Config({}))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model.type": "mmssprl.SSPRL", ACCUMULATES: 4}, "counts: .*got 4; .*num_chunks"),
        ({"model.type": "Agreement", ACCUMULATES: 4}, r"accumulative_counts: .* leave it out\.$"),
        (cropped(image_area=(0.3, 1.0)), r"pipeline.0.layout: .*model.layout"),
    ],
)
def test_what_the_method_cannot_take_is_refused(values, message):
    with pytest.raises(ValueError, match=f"^own.py: .*{message}"):
        check(**values)


@pytest.mark.parametrize(
    ("model", "hooks"),
    [
        ("SSPRL", ["PretrainHook", "EMAHook"]),
        ("SSPRL", ["mmssprl.PretrainHook"]),
        ("MultiLabelClassifier", []),
    ],
)
def test_the_hooks_of_the_base_may_have_others_beside_them(model, hooks):
    hooks = [{"type": name} for name in hooks]
    require_pretrain_hook(Config({"model": {"type": model}, "custom_hooks": hooks}))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, r"custom_hooks: .*runtime.py, .*'PretrainHook'"),
        ({"default_scope": "mmpretrain"}, r"model.type: .*translate .*type='mmpretrain.MoCo'"),
    ],
)
def test_hooks_that_replace_the_ones_of_the_base_are_refused(values, message):
    hooks = [{"type": "EMAHook"}]
    cfg = Config({"model": {"type": "MoCo"}, "custom_hooks": hooks, **values})
    with pytest.raises(ValueError, match=message):
        require_pretrain_hook(cfg)
