import json

import pytest
import torch
from helpers.datasets.noise_images import write_noise
from helpers.engine.pretrain_runner import make_runner
from helpers.models.small_contrast import CROPS, KINDS, OF_MOCO, model_cfg

from mmssprl.engine.hooks import PretrainHook
from mmssprl.models.momentum_encoder import MomentumEncoder, target_momentum
from mmssprl.registry import MODELS
from mmssprl.reporting.pictures import draw_losses
from mmssprl.weights.export import export_weights


def overrides(kind, **fields):
    own = {"bn_groups": 2} if kind in OF_MOCO else {}
    model = model_cfg(kind, **{**own, **fields})
    crop = {"type": MODELS.get(kind).transform_type, **CROPS.get(kind, {})}
    return {
        "model": {"_delete_": True, **model},
        "train_dataloader.dataset.pipeline": [{**crop, "layout": model["layout"]}],
        "default_hooks.runtime_info": {"type": "PretrainRuntimeInfoHook"},
    }


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return write_noise(tmp_path_factory.mktemp("images"), 12)


@pytest.fixture(scope="module", params=KINDS)
def trained(request, images, tmp_path_factory):
    work_dir = tmp_path_factory.mktemp("run")
    runner = make_runner(images, work_dir, **overrides(request.param))
    runner.train()
    return request.param, runner, work_dir


def test_its_health_is_logged_with_its_terms(trained):
    kind, runner, work_dir = trained
    (path,) = work_dir.glob("*/vis_data/scalars.json")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    # 12 images in batches of 4, two epochs.
    if kind == "BYOL":
        expected = [target_momentum(0.99, t / 6) for t in range(6)]
        assert [line["target_momentum"] for line in lines] == pytest.approx(expected)
    if kind in OF_MOCO:
        expected = [1 / 3, 2 / 3, 1, 1, 1, 1]
        assert [line["queue_fill"] for line in lines] == pytest.approx(expected)
        assert all(0 <= line["queue_top1"] <= 1 for line in lines)
        assert {term.num_classes for term in runner.model.loss_terms().values()} == {13}
    names = {"embedding_spread", *runner.model.loss_terms()}
    names |= {"effective_rank", "alignment", "alignment_others"}
    assert all(names <= line.keys() for line in lines)
    symbols = {"BYOL": "L_{pred}", "DetCo": "L_{gg}", "InsLoc": "L_{P3}"}
    symbol = symbols.get(kind, "L_{nce}")
    titles = [axes.get_title(loc="left") for axes in draw_losses(work_dir).axes]
    assert f"${symbol}$, image" in titles


def averages_of(model):
    return [part for part in model.modules() if isinstance(part, MomentumEncoder)]


def test_resumes_bit_equal(images, trained, tmp_path):
    kind, whole, work_dir = trained
    checkpoint = str(work_dir / "epoch_1.pth")
    again = make_runner(images, tmp_path, resume=True, load_from=checkpoint, **overrides(kind))
    again.train()
    state = again.model.state_dict()
    assert all(each.num_updates == 6 for each in averages_of(again.model))
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, state[name]), name


def test_the_backbone_that_remains_is_no_average(trained, tmp_path):
    _, runner, work_dir = trained
    weights = torch.load(work_dir / "toy_ssprl_backbone.pth", weights_only=True)
    export_weights(str(work_dir / "epoch_2.pth"), "pth", tmp_path / "w.pth")
    exported = torch.load(tmp_path / "w.pth", weights_only=True)
    query = runner.model.backbone.state_dict()
    assert query.keys() == weights.keys() == exported.keys()
    for name, value in query.items():
        assert torch.equal(weights[name], value.cpu()), name
        assert torch.equal(exported[name], value.cpu()), name
    for average in averages_of(runner.model):
        key = average.copies[0].state_dict()
        assert not torch.equal(key["conv1.weight"].cpu(), weights["conv1.weight"])


def test_a_last_batch_that_its_groups_do_not_divide_ends_before_the_first_step(images, tmp_path):
    # The last batch has 4 of the 12 images.
    values = {**overrides("MoCo", bn_groups=8), "train_dataloader.batch_size": 8}
    PretrainHook().before_train(make_runner(images, tmp_path / "drops it", **values))
    values["train_dataloader.drop_last"] = False
    runner = make_runner(images, tmp_path / "keeps it", **values)
    with pytest.raises(ValueError, match="bn_groups=8, but got 4; .*drop_last=True"):
        runner.train()
    assert runner.iter == 0
