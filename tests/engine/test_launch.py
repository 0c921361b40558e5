import os

import pytest
import torch
from helpers.engine.toy_run import ToyModel, write_config
from mmengine.runner import Runner

from mmssprl.engine.launch import prepare_test_config, prepare_train_config
from mmssprl.engine.runner import ConsoleRunner


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write_config(tmp_path)


def save_checkpoint(path):
    """Save the parts of a checkpoint that are checked before the model is built."""
    parts = {"message_hub": {}, "optimizer": {}, "meta": {"epoch": 1, "iter": 4}}
    torch.save({"state_dict": ToyModel(sync=False).state_dict(), **parts}, path)


@pytest.fixture
def on_gpu(monkeypatch):
    monkeypatch.setattr("mmssprl.engine.launch.get_device", lambda: "cuda")


@pytest.mark.parametrize("name", ["epoch_3.pth", "last_checkpoint"])
def test_a_used_work_dir_is_refused_and_left_alone_and_one_of_logs_is_free(config, tmp_path, name):
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / name).write_text("old")
    with pytest.raises(FileExistsError, match=rf"{name}; .*resume.*overwrite"):
        prepare_train_config(config, work_dir="used")
    assert [path.name for path in (tmp_path / "used").iterdir()] == [name]
    (tmp_path / "used" / name).rename(tmp_path / "used" / "toy.py")
    assert not prepare_train_config(config, work_dir="used").get("resume")
    save_checkpoint(tmp_path / "used" / "epoch_3.pth")
    assert prepare_train_config(config, work_dir="used", cfg_options={"resume": True}).load_from


def test_resume_takes_the_newest_or_a_given_checkpoint(config, tmp_path):
    options = {"load_from": "pretrained.pth"}
    cfg = prepare_train_config(config, resume="auto", cfg_options=options)
    assert (cfg.resume, cfg.load_from) == (True, None)
    save_checkpoint(tmp_path / "a.pth")
    cfg = prepare_train_config(config, resume="a.pth")
    assert (cfg.resume, cfg.load_from) == (True, "a.pth")


@pytest.mark.parametrize(
    ("options", "dtype", "scale"),
    [
        ({}, "bfloat16", {"enabled": False}),
        ({"dtype": "float16"}, "float16", None),
        ({"type": "AmpOptimWrapper", "loss_scale": 8.0}, "bfloat16", 8.0),
    ],
)
def test_amp_is_bfloat16_without_a_scaler_unless_the_config_says(
    config, on_gpu, options, dtype, scale
):
    options = {f"optim_wrapper.{name}": value for name, value in options.items()}
    wrapper = prepare_train_config(config, amp=True, cfg_options=options).optim_wrapper
    assert (wrapper.type, wrapper.dtype) == ("AmpOptimWrapper", dtype)
    assert (wrapper.get("loss_scale"), wrapper.optimizer.lr) == (scale, 0.01)


@pytest.mark.parametrize("wrapper", [{"type": "ApexOptimWrapper"}, None])
def test_amp_refuses_a_custom_wrapper(config, on_gpu, wrapper):
    with pytest.raises(ValueError, match=r"--amp .*('ApexOptimWrapper'|None)"):
        prepare_train_config(config, amp=True, cfg_options={"optim_wrapper": wrapper})


@pytest.mark.parametrize("deterministic", [True, False])
def test_cublas_is_configured_before_it_starts(monkeypatch, deterministic):
    found = []
    monkeypatch.setattr(os, "environ", {})
    monkeypatch.setattr(Runner, "set_randomness", lambda *_, **__: found.extend(os.environ.items()))
    ConsoleRunner.__new__(ConsoleRunner).set_randomness(deterministic=deterministic)
    assert found == ([("CUBLAS_WORKSPACE_CONFIG", ":4096:8")] if deterministic else [])


def test_compile_is_set_in_the_config(config, tmp_path):
    path = tmp_path / "ssprl.py"
    path.write_text(config.read_text() + 'model = dict(type="SSPRL")\n')
    assert "compile_backbone" not in prepare_train_config(path).model
    model = prepare_train_config(path, compile=True).model
    assert (model.compile_backbone, model.data_preprocessor) == (True, {"compile": True})


def test_torchrun_must_have_started_the_processes_which_get_their_wrapper_on_the_cpu(
    config, on_cpu, monkeypatch
):
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(ValueError, match="RANK .*torchrun"):
        prepare_train_config(config, launcher="pytorch")
    with pytest.raises(ValueError, match="'mpi'.*tools/dist_train.sh"):
        prepare_train_config(config, launcher="mpi")
    monkeypatch.setenv("RANK", "0")
    ours, found = {"type": "CPUDistributedDataParallel"}, {"find_unused_parameters": True}
    plain = {"type": "MMDistributedDataParallel", "static_graph": True}
    separate = {"type": "MMSeparateDistributedDataParallel"}
    for options, used in (
        ({}, {**ours, "broadcast_buffers": False, "find_unused_parameters": False}),
        (found, {**ours, "broadcast_buffers": False, **found}),
        ({"model_wrapper_cfg": plain}, {**plain, **ours}),
        ({"model_wrapper_cfg": separate}, separate),
    ):
        cfg = prepare_train_config(config, launcher="pytorch", cfg_options=options)
        assert cfg.model_wrapper_cfg == used
    assert "model_wrapper_cfg" not in prepare_train_config(config)
    monkeypatch.setattr("mmssprl.engine.launch.get_device", lambda: "cuda")
    for launcher in ("pytorch", "mpi"):
        cfg = prepare_train_config(config, launcher=launcher)
        assert cfg.launcher == launcher
        assert "model_wrapper_cfg" not in cfg


def test_test_needs_its_data_and_never_resumes(config):
    save_checkpoint(config.with_suffix(".pth"))
    cfg = prepare_test_config(config, "toy.pth", cfg_options={"resume": True})
    assert (cfg.resume, cfg.load_from) == (False, "toy.pth")
    with pytest.raises(ValueError, match=r"test_dataloader.*`probe`"):
        prepare_test_config(config, "toy.pth", cfg_options={"test_dataloader": None})
