import pytest
import torch
from helpers.engine.pretrain_runner import make_runner
from helpers.saving.stopped_runs import assert_equal


def test_same_seed_same_weights_other_seed_other_weights(images, trained, tmp_path):
    whole, _ = trained
    again = make_runner(images, tmp_path / "a", max_epochs=4)
    again.train()
    assert_equal(again.model.state_dict(), whole.model.state_dict(), "weights")
    other = make_runner(images, tmp_path / "b", max_epochs=4, **{"randomness.seed": 4})
    other.train()
    name = "backbone.conv1.weight"
    assert not torch.equal(other.model.state_dict()[name], whole.model.state_dict()[name])


@pytest.mark.parametrize(
    ("by_epoch", "interval", "files"),
    [(True, 3, ["epoch_3.pth", "epoch_4.pth"]), (False, 5, ["iter_5.pth", "iter_8.pth"])],
)
def test_the_model_is_told_of_the_checkpoints_alone(
    images, tmp_path, monkeypatch, by_epoch, interval, files
):
    options = {"by_epoch": by_epoch, "interval": interval}
    options = {f"default_hooks.checkpoint.{name}": value for name, value in options.items()}
    runner = make_runner(images, tmp_path, max_epochs=4, **options)
    calls = []
    for name in ("before_checkpoint", "after_checkpoint"):
        monkeypatch.setattr(runner.model, name, lambda name=name: calls.append(name))
    runner.train()
    names = sorted(path.name for path in tmp_path.glob("*.pth") if "backbone" not in path.name)
    assert names == files
    assert calls == ["before_checkpoint", "after_checkpoint"] * 2


def test_backbone_weights_are_a_plain_state_dict(trained):
    runner, work_dir = trained
    weights = torch.load(work_dir / "toy_ssprl_backbone.pth", weights_only=True)
    assert type(weights) is dict
    expected = runner.model.backbone.state_dict()
    assert_equal(weights, {name: value.cpu() for name, value in expected.items()}, "weights")


def test_hook_tells_the_data_set_of_the_epoch(trained):
    runner, _ = trained
    dataset = runner.train_dataloader.dataset
    first = dataset[0]["inputs"][0]
    dataset.set_epoch(0, runner.seed)
    assert not torch.equal(first, dataset[0]["inputs"][0])
    dataset.set_epoch(3, runner.seed)
    assert torch.equal(first, dataset[0]["inputs"][0])


def test_only_loops_with_epochs(images, tmp_path):
    runner = make_runner(
        images,
        tmp_path,
        train_cfg={"_delete_": True, "type": "IterBasedTrainLoop", "max_iters": 2},
        train_dataloader={"sampler": {"type": "InfiniteSampler", "_delete_": True}},
    )
    with pytest.raises(ValueError, match="EpochBasedTrainLoop.*IterBasedTrainLoop"):
        runner.train()


def test_only_models_of_the_protocol(images, tmp_path):
    runner = make_runner(images, tmp_path)
    runner.model = runner.model.backbone
    with pytest.raises(ValueError, match="PretrainingModel, but got ResNet"):
        runner.call_hook("before_train")


def test_what_only_whole_updates_can_count_is_refused(images, tmp_path):
    runner = make_runner(images, tmp_path, **{"optim_wrapper.accumulative_counts": 2})
    with pytest.raises(ValueError, match="accumulative_counts: .* got 2"):
        runner.train()


def test_a_run_in_chunks_counts_whole_steps(images, trained, tmp_path):
    runner = make_runner(images, tmp_path, max_epochs=4, **{"model.num_chunks": 2})
    runner.train()
    head, expected = runner.model.head, trained[0].model.head
    assert head.num_iterations == expected.num_iterations == 8
    for queue, other in zip(head.queues, expected.queues, strict=True):
        assert queue.num_pushed == other.num_pushed
    assert runner.model.backbone.bn1.num_batches_tracked == 2 * 8
