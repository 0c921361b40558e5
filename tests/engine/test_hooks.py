from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch
from helpers.engine.pretrain_runner import make_runner
from mmengine.optim import OptimWrapper
from torch import nn

from mmssprl.engine.hooks import ClipGradientsHook
from mmssprl.probing.probe_file import best_of, read_probes


def test_each_epoch_draws_its_own_crops(images, tmp_path):
    runner = make_runner(images, tmp_path)
    runner.train()
    dataset = runner.train_dataloader.dataset
    last = dataset[0]["inputs"][0]
    dataset.set_epoch(0, runner.seed)
    assert not torch.equal(last, dataset[0]["inputs"][0])
    dataset.set_epoch(1, runner.seed)
    assert torch.equal(last, dataset[0]["inputs"][0])


def test_the_exported_backbone_is_averaged_as_the_checkpoints_are(images, tmp_path):
    hooks = [{"type": "PretrainHook"}, {"type": "EMAHook", "momentum": 0.5}, {"type": "ProbeHook"}]
    runner = make_runner(images, tmp_path, custom_hooks=hooks)
    runner.train()
    exported = torch.load(tmp_path / "toy_ssprl_backbone.pth", weights_only=True)
    saved = torch.load(tmp_path / "epoch_2.pth", weights_only=True)["state_dict"]
    assert len(exported) > 10
    assert all(torch.equal(value, saved[f"backbone.{key}"]) for key, value in exported.items())
    assert not torch.equal(exported["conv1.weight"], runner.model.backbone.conv1.weight)
    # The probe scores and keeps the same.
    best = torch.load(tmp_path / "toy_ssprl_best_backbone.pth", weights_only=True)
    epoch = best_of(read_probes(tmp_path / "probe.csv")).epoch
    saved = torch.load(tmp_path / f"epoch_{epoch}.pth", weights_only=True)["state_dict"]
    assert torch.equal(best["conv1.weight"], saved["backbone.conv1.weight"])


def test_bad_images_of_an_earlier_run_do_not_count(images, tmp_path):
    listed = tmp_path / "bad_images.txt"
    listed.write_text("".join(f"{number}.png\tcut off\n" for number in range(10)))
    make_runner(images, tmp_path).call_hook("before_train")
    assert not listed.exists()


def test_a_loop_without_epochs_is_refused(images, tmp_path):
    iters = {"_delete_": True, "type": "IterBasedTrainLoop", "max_iters": 2}
    sampler = {"sampler": {"_delete_": True, "type": "InfiniteSampler"}}
    by_iters = make_runner(images, tmp_path, train_cfg=iters, train_dataloader=sampler)
    with pytest.raises(ValueError, match="EpochBasedTrainLoop.*IterBasedTrainLoop"):
        by_iters.train()


def test_accumulated_updates_are_refused(images, tmp_path):
    runner = make_runner(images, tmp_path, **{"optim_wrapper.accumulative_counts": 2})
    with pytest.raises(ValueError, match="accumulative_counts: .* got 2"):
        runner.train()


def test_a_model_of_another_kind_is_refused(images, tmp_path):
    runner = make_runner(images, tmp_path)
    runner.model = runner.model.backbone
    with pytest.raises(ValueError, match="PretrainingModel, but got ResNet"):
        runner.call_hook("before_train")


@pytest.mark.parametrize(
    ("kind", "num_warnings"), [("LogProcessor", 1), ("PretrainLogProcessor", 0)]
)
def test_a_log_without_the_progress_is_a_warning(images, tmp_path, kind, num_warnings):
    runner = make_runner(images, tmp_path, log_processor={"type": kind})
    runner.logger.warning = Mock()
    runner.call_hook("before_train")
    said = [line.args[0] for line in runner.logger.warning.call_args_list]
    assert sum("dict(type='PretrainLogProcessor')" in line for line in said) == num_warnings


def clipped(*parts):
    """A model with clipped backbone and head, and its optimizer of learning rate 1."""
    model = nn.ModuleDict({name: nn.Linear(2, 1, bias=False) for name in parts})
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    runner = SimpleNamespace(model=model, optim_wrapper=OptimWrapper(optimizer))
    ClipGradientsHook(["backbone", "head"], 10.0).before_train(runner)
    return model, optimizer


@pytest.mark.parametrize("scaled", [False, True])
def test_each_module_is_clipped_separately_after_a_scaled_loss_is_unscaled(scaled):
    model, optimizer = clipped("backbone", "head", "neck")
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, enabled=scaled)
    slopes = {"backbone": (30.0, 40.0), "head": (3.0, 4.0), "neck": (300.0, 400.0)}
    before = {name: module.weight.tolist()[0] for name, module in model.items()}
    loss = sum((torch.tensor(slope) * model[name].weight).sum() for name, slope in slopes.items())
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    # Clipped before, the head's norm of 5 x 1024 would have become 10 / 1024.
    for name, moved in {"backbone": (6, 8), "head": (3, 4), "neck": (300, 400)}.items():
        expected = [start - each for start, each in zip(before[name], moved, strict=True)]
        assert model[name].weight.tolist()[0] == pytest.approx(expected, abs=1e-3), name


def test_a_norm_of_0_is_refused():
    with pytest.raises(ValueError, match=r"max_norm must be > 0, but got 0; remove the hook"):
        ClipGradientsHook(["backbone"], 0)


def test_a_part_that_the_model_lacks_is_refused():
    with pytest.raises(ValueError, match=r"parts of the model, but \['head'\] are not; choose"):
        clipped("backbone", "neck")
