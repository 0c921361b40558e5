import pytest
from helpers.datasets.noise_images import write_noise
from helpers.engine.pretrain_runner import make_runner
from helpers.models.agreement import LAYOUT
from mmengine.config import Config

from mmssprl.models import SSPRL, is_pretraining
from mmssprl.reporting.pictures import draw_losses, draw_views

pytestmark = pytest.mark.fence


def test_which_configs_pretrain():
    def of(kind):
        return is_pretraining(Config({"model": {"type": kind}}))

    ours = ("SSPRL", "mmssprl.SSPRL", SSPRL, "Agreement", "MoCo")
    assert [of(kind) for kind in ours] == [True] * len(ours)
    others = ("MultiLabelClassifier", "mmpretrain.MoCo", "mmdet.MaskRCNN", "Nothing", None)
    assert [of(kind) for kind in others] == [False] * len(others)
    assert not is_pretraining(Config({}))


def test_a_method_is_told_of_lengths_and_checkpoints_and_is_drawn(tmp_path):
    backbone = {"type": "ResNet", "depth": 18, "stem_channels": 8, "base_channels": 8}
    model = {"type": "Agreement", "layout": LAYOUT, "backbone": backbone}
    (tmp_path / "images").mkdir()
    overrides = {
        "model": {"_delete_": True, **model},
        "train_dataloader.dataset.pipeline": [{"type": "PyramidCrop", "layout": LAYOUT}],
        "default_hooks.runtime_info": {"type": "PretrainRuntimeInfoHook"},
    }
    runner = make_runner(write_noise(tmp_path / "images", 12), tmp_path / "run", **overrides)
    runner.train()
    # 12 images in batches of 4, two epochs.
    assert runner.model.calls == [3, 6, "before", "after", "before", "after"]
    figure = draw_losses(tmp_path / "run")
    axes = {a.get_title(loc="left"): a for a in figure.axes if a.get_visible()}
    assert list(axes) == ["$L$, image", "learning rate"]
    assert len(axes["$L$, image"].lines) == 1  # the value at chance is unknown
    views = draw_views(tmp_path / "run/toy_ssprl.py", tmp_path / "images/0.png")
    assert views.axes[0].get_title(loc="left") == "Image views"
