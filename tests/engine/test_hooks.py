from types import SimpleNamespace

import pytest
import torch
from helpers.engine.pretrain_runner import make_runner
from mmengine.optim import OptimWrapper
from torch import nn

from mmssprl.engine.hooks import ClipGradientsHook


def test_bad_images_of_an_earlier_training_do_not_count(images, tmp_path):
    listed = tmp_path / "bad_images.txt"
    listed.write_text("".join(f"{number}.png\tcut off\n" for number in range(10)))
    make_runner(images, tmp_path, max_epochs=1).train()
    assert not listed.exists()


def test_each_epoch_draws_its_own_crops(images, tmp_path):
    runner = make_runner(images, tmp_path, max_epochs=4)
    runner.train()
    dataset = runner.train_dataloader.dataset
    first = dataset[0]["inputs"][0]
    dataset.set_epoch(0, runner.seed)
    assert not torch.equal(first, dataset[0]["inputs"][0])
    dataset.set_epoch(3, runner.seed)
    assert torch.equal(first, dataset[0]["inputs"][0])


def test_loops_without_epochs_other_models_and_accumulated_updates_are_refused(images, tmp_path):
    iters = {"_delete_": True, "type": "IterBasedTrainLoop", "max_iters": 2}
    sampler = {"sampler": {"_delete_": True, "type": "InfiniteSampler"}}
    by_iters = make_runner(images, tmp_path, train_cfg=iters, train_dataloader=sampler)
    with pytest.raises(ValueError, match="EpochBasedTrainLoop.*IterBasedTrainLoop"):
        by_iters.train()
    runner = make_runner(images, tmp_path, **{"optim_wrapper.accumulative_counts": 2})
    with pytest.raises(ValueError, match="accumulative_counts: .* got 2"):
        runner.train()
    runner = make_runner(images, tmp_path)
    runner.model = runner.model.backbone
    with pytest.raises(ValueError, match="PretrainingModel, but got ResNet"):
        runner.call_hook("before_train")


MODULES = ["backbone", "head"]


@pytest.fixture
def model():
    return nn.ModuleDict({name: nn.Linear(2, 1, bias=False) for name in (*MODULES, "neck")})


def loss(model, backbone=(30.0, 40.0), head=(0.0, 20.0), neck=(300.0, 400.0)):
    """Return a loss linear in the weights, with these gradients."""
    slopes = {"backbone": backbone, "head": head, "neck": neck}
    return sum((torch.tensor(slopes[n]) * model[n].weight).sum() for n in slopes)


def attach(model):
    wrapper = OptimWrapper(torch.optim.SGD(model.parameters(), lr=1.0))
    runner = SimpleNamespace(model=model, optim_wrapper=wrapper)
    ClipGradientsHook(MODULES, 10.0).before_train(runner)
    return wrapper


def moves(model, step):
    """Return how much a step with learning rate 1 subtracts from each module's weights."""
    before = {name: module.weight.detach().clone() for name, module in model.items()}
    step()
    return {name: (before[name] - m.weight.detach())[0].tolist() for name, m in model.items()}


def test_each_module_is_clipped_separately_and_others_are_not(model):
    wrapper = attach(model)
    found = moves(model, lambda: wrapper.update_params(loss(model)))
    assert found["backbone"] == pytest.approx([6, 8], abs=1e-4)
    assert found["head"] == pytest.approx([0, 10], abs=1e-4)
    assert found["neck"] == pytest.approx([300, 400], abs=1e-3)


def test_a_scaled_loss_is_clipped_after_it_is_unscaled(model):
    optimizer = attach(model).optimizer
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)

    def step():
        scaler.scale(loss(model, head=(3.0, 4.0))).backward()
        scaler.step(optimizer)

    found = moves(model, step)
    assert found["backbone"] == pytest.approx([6, 8], abs=1e-4)
    # Clipped before, its norm of 5 x 1024 would have become 10 / 1024.
    assert found["head"] == pytest.approx([3, 4], abs=1e-5)


def test_clipping_refuses(model):
    with pytest.raises(ValueError, match=r"max_norm must be > 0, but got 0; remove the hook"):
        ClipGradientsHook(MODULES, 0)
    del model["head"]
    with pytest.raises(ValueError, match=r"parts of the model, but \['head'\] are not; choose"):
        attach(model)
