import copy
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from helpers.datasets.noise_images import write_noise
from helpers.models.small_ssprl import packed_batch
from helpers.saving.stopped_runs import assert_equal_runs, train, write_pretraining
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.registry import DefaultScope
from torch.utils._pytree import tree_leaves

from mmssprl.config.shipped import shipped
from mmssprl.engine.launch import launch, prepare_train_config
from mmssprl.registry import MODELS
from mmssprl.weights import load_network

pytestmark = pytest.mark.gpu

CONFIG = shipped("configs/ssprl/ssprl_resnet18_scenes.py")
STEPS = 6  # twelve images in batches of two
EPOCHS = 2
FIRST_GUARDED = 8
LAST_GUARDED = 11
"""Steps of the second epoch, counted from 1. Its first and last step may wait."""


USUAL_CUDNN = {"deterministic": False, "benchmark": False, "allow_tf32": True}


def set_cudnn(flags: dict[str, bool]) -> None:
    for name, value in flags.items():
        setattr(torch.backends.cudnn, name, value)


@contextmanager
def as_users_have_it() -> Iterator[None]:
    """Undo the deterministic settings of conftest.py here, and the settings of a run at the end."""
    cudnn = torch.backends.cudnn
    before = {name: getattr(cudnn, name) for name in USUAL_CUDNN}
    filled = torch.utils.deterministic.fill_uninitialized_memory
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    enabled = torch.are_deterministic_algorithms_enabled()

    set_cudnn(USUAL_CUDNN)
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = True
    try:
        yield
    finally:
        set_cudnn(before)
        torch.use_deterministic_algorithms(enabled, warn_only=warn_only)
        torch.utils.deterministic.fill_uninitialized_memory = filled


class Guard(Hook):
    """Makes every wait for the device an error between the ends of two steps."""

    priority = "LOWEST"

    def __init__(self) -> None:
        self.guarded: list[int] = []

    def after_train_iter(self, runner: Any, *args: Any, **kwargs: Any) -> None:
        step = runner.iter + 1
        if step == FIRST_GUARDED - 1:
            torch.cuda.set_sync_debug_mode("error")
        if FIRST_GUARDED <= step <= LAST_GUARDED:
            self.guarded.append(step)
        if step == LAST_GUARDED:
            torch.cuda.set_sync_debug_mode("default")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Work dir and guarded steps of the shipped config: bfloat16, two epochs, a line per epoch."""
    work_dir = tmp_path_factory.mktemp("run")
    guard = Guard()
    images = write_noise(tmp_path_factory.mktemp("images"), 12)
    options = {
        "train_dataloader.dataset.data_root": str(images),
        "train_dataloader.batch_size": 2,
        "train_dataloader.pin_memory": True,
        "train_cfg.max_epochs": EPOCHS,
        "default_hooks.logger.interval": STEPS,
        "default_hooks.checkpoint.interval": 1,
    }
    with as_users_have_it():
        cfg = prepare_train_config(CONFIG, work_dir=work_dir, amp=True, cfg_options=options)
        cfg.experiment_name = work_dir.name
        try:
            launch(cfg, "train", hooks=[guard])
        finally:
            torch.cuda.set_sync_debug_mode("default")
    return work_dir, guard.guarded


def test_no_step_between_two_lines_waits_for_the_device(trained):
    _, guarded = trained  # it would have stopped there
    assert guarded == list(range(FIRST_GUARDED, LAST_GUARDED + 1))


def test_lines_have_losses_pace_memory(trained):
    work_dir, _ = trained
    (path,) = work_dir.glob("*/vis_data/scalars.json")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["step"] for line in lines] == [STEPS, 2 * STEPS]
    for line in lines:
        losses = [value for name, value in line.items() if "loss" in name]
        assert len(losses) == 1 + 3 + 2  # the sum, three pyramid terms, two cross terms
        assert all(math.isfinite(value) for value in losses)
        assert line["images_per_second"] == pytest.approx(2 / line["time"])
        assert 1 <= line["memory"] < 4096  # MiB of tensors


@pytest.fixture(scope="module")
def state(trained):
    """The checkpoint of the last epoch."""
    return torch.load(trained[0] / f"epoch_{EPOCHS}.pth", weights_only=True)


def test_a_checkpoint_of_a_gpu_is_for_any_machine(state):
    leaves = tree_leaves([state["state_dict"], state["optimizer"]])
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    assert len(tensors) > 100
    assert {tensor.device.type for tensor in tensors} == {"cpu"}
    assert {tensor.dtype for tensor in tensors} <= {torch.float32, torch.int64}
    model, batch = make_model()
    model.load_state_dict(state["state_dict"])
    assert all(torch.isfinite(loss) for loss in losses_of(model, batch).values())


def test_weights_of_a_gpu_are_for_any_machine(trained, state):
    file = trained[0] / f"{CONFIG.stem}_backbone.pth"
    weights = torch.load(file, weights_only=True)
    assert {weight.device.type for weight in weights.values()} == {"cpu"}
    for name, value in load_network(str(file), Config.fromfile(CONFIG)).state_dict().items():
        assert torch.equal(value, state["state_dict"][f"backbone.{name}"]), name


@pytest.mark.parametrize(
    # A value in bfloat16 has 8 bits, so 0.4 %. With the CPU's these means differ by up to 0.06 %.
    ("amp", "tolerance"),
    [(False, 1e-4), (True, 0.01)],
    ids=["float32", "bfloat16"],
)
def test_losses_are_those_of_the_cpu_in_float32(amp, tolerance):
    model, batch = make_model()
    with torch.autocast("cuda", torch.bfloat16, enabled=amp):
        on_gpu = losses_of(copy.deepcopy(model).cuda(), batch)
    on_cpu = losses_of(model, batch)
    assert on_gpu.keys() == on_cpu.keys()
    for name, loss in on_cpu.items():
        assert (on_gpu[name].device.type, on_gpu[name].dtype) == ("cuda", torch.float32)
        assert on_gpu[name].item() == pytest.approx(loss.item(), rel=tolerance), name
    off = [abs(on_gpu[name].item() / loss.item() - 1) for name, loss in on_cpu.items()]
    assert not amp or max(off) > 1e-5, "autocast has done nothing"


def test_a_stopped_run_resumes_bit_by_bit_if_deterministic(tmp_path, monkeypatch):
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)  # a run sets it if needed
    config = write_pretraining(tmp_path)
    options = {"randomness.deterministic": True}
    with as_users_have_it():
        train(config, tmp_path / "whole", options=options)
        assert torch.are_deterministic_algorithms_enabled()
        assert not torch.is_deterministic_algorithms_warn_only_enabled()
        train(config, tmp_path / "cut", stops=(3, 7), options=options)
    assert_equal_runs(tmp_path / "cut", tmp_path / "whole", "epoch_3.pth")


def make_model() -> tuple[Any, dict[str, list[torch.Tensor]]]:
    """The shipped model on the CPU, and a batch of eight images."""
    cfg = Config.fromfile(CONFIG)
    torch.manual_seed(0)
    with DefaultScope.overwrite_default_scope("mmssprl"):
        model = MODELS.build(cfg.model)
    return model.train(), packed_batch(cfg.model.layout, batch=8)


def losses_of(model: Any, batch: dict) -> dict[str, torch.Tensor]:
    """Losses without augmentation, which has its own test."""
    losses = model(**model.data_preprocessor(batch, training=False), mode="loss")
    return {name: loss.detach() for name, loss in losses.items()}
