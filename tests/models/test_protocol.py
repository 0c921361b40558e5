import pytest
from helpers.datasets.noise_images import write_noise
from helpers.engine.pretrain_runner import make_runner
from helpers.models.agreement import LAYOUT
from mmengine.config import Config
from PIL import Image

from mmssprl.models import SSPRL, is_pretraining
from mmssprl.reporting.pictures import draw_losses, draw_views

pytestmark = pytest.mark.fence
OVERRIDES = {
    "model": {
        "_delete_": True,
        "type": "Agreement",
        "layout": LAYOUT,
        "backbone": {"type": "ResNet", "depth": 18, "stem_channels": 8, "base_channels": 8},
    },
    "train_dataloader.dataset.pipeline": [{"type": "PyramidCrop", "layout": LAYOUT}],
    "default_hooks.runtime_info": {"type": "PretrainRuntimeInfoHook"},
}
"""Overrides that make the config of ``pretrain_runner`` train ``Agreement``."""


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return write_noise(tmp_path_factory.mktemp("images"), 12)


@pytest.fixture(scope="module")
def trained(images, tmp_path_factory):
    work_dir = tmp_path_factory.mktemp("run")
    runner = make_runner(images, work_dir, **OVERRIDES)
    runner.train()
    return runner, work_dir


def test_which_configs_pretrain():
    def of(kind):
        return is_pretraining(Config({"model": {"type": kind}}))

    ours = ("SSPRL", "mmssprl.SSPRL", SSPRL, "Agreement", "MoCo")
    assert [of(kind) for kind in ours] == [True] * len(ours)
    others = ("MultiLabelClassifier", "mmpretrain.MoCo", "mmdet.MaskRCNN", "Nothing", None)
    assert [of(kind) for kind in others] == [False] * len(others)
    assert not is_pretraining(Config({}))


def test_is_told_of_lengths_and_checkpoints(trained):
    # 12 images in batches of 4, two epochs.
    assert trained[0].model.calls == [3, 6, "before", "after", "before", "after"]


def test_is_drawn(trained, tmp_path):
    _, work_dir = trained
    figure = draw_losses(work_dir)
    axes = {a.get_title(loc="left"): a for a in figure.axes if a.get_visible()}
    assert list(axes) == ["$L$, image", "learning rate"]
    assert len(axes["$L$, image"].lines) == 1  # the value at chance is unknown
    Image.new("RGB", (40, 30)).save(tmp_path / "image.png")
    views = draw_views(work_dir / "toy_ssprl.py", tmp_path / "image.png")
    assert views.axes[0].get_title(loc="left") == "Image views"
