from pathlib import Path

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


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    """A run of two epochs of a method that shares only the protocol with SS-PRL."""
    folder = tmp_path_factory.mktemp("agreement")
    (folder / "images").mkdir()
    backbone = {"type": "ResNet", "depth": 18, "stem_channels": 8, "base_channels": 8}
    model = {"type": "Agreement", "layout": LAYOUT, "backbone": backbone}
    overrides = {
        "model": {"_delete_": True, **model},
        "train_dataloader.dataset.pipeline": [{"type": "PyramidCrop", "layout": LAYOUT}],
        "default_hooks.runtime_info": {"type": "PretrainRuntimeInfoHook"},
    }
    runner = make_runner(write_noise(folder / "images", 12), folder / "run", **overrides)
    runner.train()
    return runner


def test_a_method_hears_of_lengths_then_of_checkpoints(runner):
    # 12 images in batches of 4, two epochs.
    assert runner.model.calls == [3, 6, "before", "after", "before", "after"]


def test_the_losses_of_a_method_are_drawn(runner):
    figure = draw_losses(Path(runner.work_dir))
    axes = {a.get_title(loc="left"): a for a in figure.axes if a.get_visible()}
    assert list(axes) == ["$L$, image", "learning rate"]
    assert len(axes["$L$, image"].lines) == 1  # the value at chance is unknown


def test_the_views_of_a_method_are_drawn(runner):
    folder = Path(runner.work_dir)
    views = draw_views(folder / "toy_ssprl.py", folder.parent / "images/0.png")
    assert views.axes[0].get_title(loc="left") == "Image views"
