"""BYOL through the runner, its hooks and its checkpoints."""

import json

import pytest
import torch
from byol_cases import LAYOUT, MODEL
from pretrain_runner import make_runner
from profiles import save_images

from mmssprl.models.momentum_encoder import target_momentum
from mmssprl.visualization import draw_losses
from mmssprl.weights.export import export_weights

OVERRIDES = {
    "model": {"_delete_": True, **MODEL, "base_momentum": 0.9},
    "train_dataloader.dataset.pipeline": [{"type": "PyramidCrop", "layout": LAYOUT}],
    "default_hooks.runtime_info": {"type": "PretrainRuntimeInfoHook"},
    "optim_wrapper.optimizer": {"_delete_": True, "type": "AdamW", "lr": 1e-2},
}


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return save_images(tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="module")
def trained(images, tmp_path_factory):
    work_dir = tmp_path_factory.mktemp("run")
    runner = make_runner(images, work_dir, **OVERRIDES)
    runner.train()
    return runner.model, work_dir


def logged(work_dir):
    (path,) = work_dir.glob("*/vis_data/scalars.json")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_health_is_logged_and_the_momentum_counts_steps(trained):
    lines = logged(trained[1])
    # 12 images in batches of 4, two epochs.
    expected = [target_momentum(0.9, t / 6) for t in range(6)]
    assert [line["target_momentum"] for line in lines] == pytest.approx(expected)
    assert all(line["embedding_spread"] > 0 for line in lines)
    assert all(line["loss"] == line["loss_prediction"] < 8 for line in lines)
    titles = [axes.get_title(loc="left") for axes in draw_losses(trained[1]).axes]
    assert "$L_{pred}$, image" in titles


def test_resumes_bit_equal(images, trained, tmp_path):
    whole, work_dir = trained
    again = make_runner(
        images, tmp_path, resume=True, load_from=str(work_dir / "epoch_1.pth"), **OVERRIDES
    )
    again.train()
    state = again.model.state_dict()
    assert again.model.target.num_updates == 6
    for name, value in whole.state_dict().items():
        assert torch.equal(value, state[name]), name
    assert [line["target_momentum"] for line in logged(tmp_path)] == pytest.approx(
        [line["target_momentum"] for line in logged(work_dir)[3:]]
    )


def test_what_remains_is_the_online_backbone(trained, tmp_path):
    model, work_dir = trained
    exported = tmp_path / "backbone.pth"
    export_weights(str(work_dir / "epoch_2.pth"), "backbone", exported)
    online, average = (
        {name: value.cpu() for name, value in backbone.state_dict().items()}
        for backbone in (model.backbone, model.target.copies[0])
    )
    for path in (work_dir / "toy_ssprl_backbone.pth", exported):
        weights = torch.load(path, weights_only=True)
        assert weights.keys() == average.keys()
        assert all(map(torch.equal, weights.values(), online.values()))
        assert not torch.equal(weights["conv1.weight"], average["conv1.weight"])
