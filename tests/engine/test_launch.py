import os

import pytest
import torch
from helpers.engine.toy_run import ToyModel, write_config
from mmengine.config import Config
from mmengine.optim import AmpOptimWrapper, OptimWrapper
from mmengine.runner import Runner

from mmssprl.engine.launch import launch, prepare_test_config, prepare_train_config
from mmssprl.engine.runner import ConsoleRunner
from mmssprl.saving.checkpoint_hooks import PretrainCheckpointHook, SafeCheckpointHook


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
def test_a_used_work_dir_is_refused_untouched(config, tmp_path, name):
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / name).write_text("old")
    with pytest.raises(FileExistsError, match=rf"{name}; .*resume.*overwrite"):
        prepare_train_config(config, work_dir="used")
    assert [path.name for path in (tmp_path / "used").iterdir()] == [name]


def test_a_work_dir_without_checkpoints_is_free(config, tmp_path):
    (tmp_path / "used").mkdir()
    (tmp_path / "used/toy.py").write_text("old")
    assert not prepare_train_config(config, work_dir="used").get("resume")


def test_a_config_that_resumes_finds_the_newest_checkpoint(config, tmp_path):
    (tmp_path / "used").mkdir()
    save_checkpoint(tmp_path / "used/epoch_3.pth")
    cfg = prepare_train_config(config, work_dir="used", cfg_options={"resume": True})
    assert cfg.load_from == "used/epoch_3.pth"


def test_resume_takes_the_newest_or_a_given_checkpoint(config, tmp_path):
    save_checkpoint(tmp_path / "a.pth")
    (tmp_path / "used").mkdir()
    save_checkpoint(tmp_path / "used/epoch_3.pth")
    options = {"load_from": "a.pth"}
    cfg = prepare_train_config(config, work_dir="used", resume="auto", cfg_options=options)
    assert (cfg.resume, cfg.load_from) == (True, "used/epoch_3.pth")
    cfg = prepare_train_config(config, resume="a.pth")
    assert (cfg.resume, cfg.load_from) == (True, "a.pth")


def test_resume_without_a_checkpoint_starts_from_the_weights_of_the_config(config, tmp_path):
    save_checkpoint(tmp_path / "a.pth")
    cfg = prepare_train_config(config, resume="auto", cfg_options={"load_from": "a.pth"})
    assert (cfg.resume, cfg.load_from) == (False, "a.pth")


def test_resume_without_a_checkpoint_starts_anew(config):
    cfg = prepare_train_config(config, resume="auto")
    assert (cfg.resume, cfg.load_from) == (True, None)


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


@pytest.mark.parametrize(
    "kind",
    [
        OptimWrapper,
        AmpOptimWrapper,
        "mmengine.OptimWrapper",
        "mmengine.optim.OptimWrapper",
    ],
)
def test_amp_takes_a_wrapper_by_each_of_its_names(config, on_gpu, kind):
    options = {"optim_wrapper.type": kind}
    wrapper = prepare_train_config(config, amp=True, cfg_options=options).optim_wrapper
    assert wrapper.type == "AmpOptimWrapper"


def test_an_epoch_without_an_end_is_refused(config):
    options = {"train_dataloader.sampler.type": "InfiniteSampler"}
    cfg = prepare_train_config(config, work_dir="run", cfg_options=options)
    with pytest.raises(ValueError, match=r"sampler must end with an epoch .*take DefaultSampler"):
        launch(cfg, "train")


def test_no_reading_processes_need_no_other_options(config):
    kept = {"train_dataloader.persistent_workers": True, "train_dataloader.prefetch_factor": 4}
    cfg = prepare_train_config(config, cfg_options={**kept, "train_dataloader.num_workers": 2})
    assert cfg.train_dataloader.persistent_workers
    cfg = prepare_train_config(config, cfg_options={**kept, "train_dataloader.num_workers": 0})
    assert not {"persistent_workers", "prefetch_factor"} & cfg.train_dataloader.keys()


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


@pytest.mark.parametrize(
    ("model", "kind"),
    [("SSPRL", PretrainCheckpointHook), ("MultiLabelClassifier", SafeCheckpointHook)],
)
def test_mmengine_s_checkpoint_hook_becomes_the_one_of_the_training(monkeypatch, model, kind):
    found = {}
    monkeypatch.setattr(Runner, "register_default_hooks", lambda _, hooks: found.update(hooks))
    runner = ConsoleRunner.__new__(ConsoleRunner)
    runner.cfg = Config({"model": {"type": model}})
    runner.register_default_hooks({"checkpoint": {"type": "CheckpointHook", "interval": 3}})
    assert found == {"checkpoint": {"type": kind, "interval": 3}}


def test_compile_is_set_in_the_config(config, tmp_path):
    path = tmp_path / "ssprl.py"
    text = 'model = dict(type="SSPRL")\ncustom_hooks = [dict(type="PretrainHook")]\n'
    path.write_text(config.read_text() + text)
    assert "compile_backbone" not in prepare_train_config(path).model
    model = prepare_train_config(path, compile=True).model
    assert (model.compile_backbone, model.data_preprocessor) == (True, {"compile": True})


def test_torchrun_must_have_started_the_processes(config, on_cpu, monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(ValueError, match="RANK .*torchrun"):
        prepare_train_config(config, launcher="pytorch")


def test_processes_of_the_caller_are_refused(config, monkeypatch):
    monkeypatch.setattr("mmssprl.engine.launch.get_world_size", lambda: 2)
    with pytest.raises(RuntimeError, match=r"a process group, .* one of 2 .*`pretrain`"):
        launch(prepare_train_config(config, work_dir="run"), "train")
    assert not os.path.exists("run")


def test_a_group_of_the_caller_alone_stays(config):
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        launch(prepare_train_config(config, work_dir="run"), "train")
        assert torch.distributed.is_initialized()
    finally:
        torch.distributed.destroy_process_group()


def test_mpi_starts_no_processes_on_the_cpu(config, on_cpu):
    with pytest.raises(ValueError, match="'mpi'.*tools/dist_train.sh"):
        prepare_train_config(config, launcher="mpi")


OURS = {"type": "CPUDistributedDataParallel"}
FOUND = {"find_unused_parameters": True}
PLAIN = {"type": "MMDistributedDataParallel", "static_graph": True}
SEPARATE = {"type": "MMSeparateDistributedDataParallel"}


@pytest.mark.parametrize(
    ("options", "used"),
    [
        ({}, {**OURS, "broadcast_buffers": False, "find_unused_parameters": False}),
        (FOUND, {**OURS, "broadcast_buffers": False, **FOUND}),
        ({"model_wrapper_cfg": PLAIN}, {**PLAIN, **OURS}),
        ({"model_wrapper_cfg": SEPARATE}, SEPARATE),
    ],
)
def test_processes_on_the_cpu_get_their_wrapper(config, on_cpu, monkeypatch, options, used):
    monkeypatch.setenv("RANK", "0")
    cfg = prepare_train_config(config, launcher="pytorch", cfg_options=options)
    assert cfg.model_wrapper_cfg == used


def test_one_process_gets_no_wrapper(config, on_cpu):
    assert "model_wrapper_cfg" not in prepare_train_config(config)


@pytest.mark.parametrize("launcher", ["pytorch", "mpi"])
def test_processes_on_gpus_get_mmengine_s_wrapper(config, on_gpu, monkeypatch, launcher):
    monkeypatch.setenv("RANK", "0")
    cfg = prepare_train_config(config, launcher=launcher)
    assert cfg.launcher == launcher
    assert "model_wrapper_cfg" not in cfg


def test_a_test_never_resumes(config):
    save_checkpoint(config.with_suffix(".pth"))
    cfg = prepare_test_config(config, "toy.pth", cfg_options={"resume": True})
    assert (cfg.resume, cfg.load_from) == (False, "toy.pth")


def test_a_test_needs_its_data(config):
    with pytest.raises(ValueError, match=r"test_dataloader.*`probe`"):
        prepare_test_config(config, "toy.pth", cfg_options={"test_dataloader": None})
