"""What a pre-training config must not ask for, each with one message."""

import importlib.util

import agreement  # noqa: F401  registers a method that takes neither parts nor compilation
import pytest
import torch
from mmengine.config import Config

from mmssprl.config import pretrain_checks
from mmssprl.config.pretrain_checks import check_pretraining, use_compile
from mmssprl.config.run_checks import check_config
from mmssprl.config.shipped import shipped
from mmssprl.datasets.transforms import PyramidCrop


def config(**overrides):
    cfg = Config(
        {
            "model": {"type": "SSPRL"},
            "train_dataloader": {"batch_size": 8},
            "optim_wrapper": {"type": "OptimWrapper"},
        },
        filename="own.py",
        cfg_text="# made by the test",
    )
    cfg.merge_from_dict(overrides)
    return cfg


def test_good_configs_pass():
    check_pretraining(config())
    check_pretraining(config(**{"model.num_chunks": 4, "optim_wrapper.accumulative_counts": 1}))
    other = {"model.type": "MultiLabelClassifier", "optim_wrapper.accumulative_counts": 4}
    check_pretraining(config(**other))
    check_pretraining(Config({}))


@pytest.mark.parametrize("kind", ["SSPRL", "mmssprl.SSPRL"])
def test_accumulated_gradients_are_refused(kind):
    message = (
        r"^own.py: optim_wrapper.accumulative_counts: it must be 1 in pre-training, .* but got 4; "
        r"leave it out\. For a batch N times as large .* by N and set model.num_chunks=N\.$"
    )
    with pytest.raises(ValueError, match=message):
        check_pretraining(config(**{"model.type": kind, "optim_wrapper.accumulative_counts": 4}))


def test_chunks_divide_the_batch():
    message = "batch_size: it must be a multiple of model.num_chunks, but got 8 and 3; change one"
    with pytest.raises(ValueError, match=message):
        check_pretraining(config(**{"model.num_chunks": 3}))


@pytest.mark.parametrize("value", [0, 2.0, "2", None])
def test_chunks_are_a_number(value):
    message = f"model.num_chunks: it must be an integer >= 1, but got {value!r}"
    with pytest.raises(ValueError, match=message):
        check_pretraining(config(**{"model.num_chunks": value}))


def test_a_method_that_needs_its_whole_batch_refuses_parts_of_it():
    cfg = config(**{"model.type": "Agreement", "model.num_chunks": 1})
    check_pretraining(cfg)
    cfg.model.num_chunks = 2
    message = r"num_chunks: it must be 1 for Agreement, which needs .* but got 2; leave it out"
    with pytest.raises(ValueError, match=message):
        check_pretraining(cfg)
    accumulated = {"model.type": "Agreement", "optim_wrapper.accumulative_counts": 4}
    with pytest.raises(ValueError, match=r"accumulative_counts: it must be 1 .* leave it out\.$"):
        check_pretraining(config(**accumulated))


@pytest.mark.parametrize("name", ["mocov2", "densecl", "byol"])
def test_that_comes_before_the_fields_of_a_config(name):
    """These methods have no field num_chunks, which alone would not say why."""
    cfg = Config.fromfile(shipped(f"configs/baselines/{name}_resnet18_scenes.py"))
    check_config(cfg, ("train",))
    cfg.model.num_chunks = 2
    message = rf"scenes.py: model.num_chunks: it must be 1 for {cfg.model.type}, which needs its wh"
    with pytest.raises(ValueError, match=message):
        check_config(cfg, ("train",))


@pytest.mark.parametrize("kind", ["PyramidCrop", "mmssprl.PyramidCrop", PyramidCrop])
def test_model_and_data_have_one_layout(kind):
    crop = {"type": kind, "layout": {"image_px": 96}}
    cfg = config(**{"model.layout": {"image_px": 96}})
    cfg.train_dataloader.dataset = {"pipeline": [crop]}
    check_pretraining(cfg)
    crop["layout"] = {"image_px": 64}
    cfg.train_dataloader.dataset = {"pipeline": [crop]}
    message = r"model.layout: it must be the layout of .*, but image_px of them are \[96\] and"
    with pytest.raises(ValueError, match=message):
        check_pretraining(cfg)


COMPILED = {"model.compile_backbone": True}


@pytest.fixture
def cpu(monkeypatch):
    monkeypatch.setattr(pretrain_checks, "get_device", lambda: "cpu")


def test_a_cpu_needs_a_compiler(cpu, monkeypatch, tmp_path):
    compiler = tmp_path / "mine"
    monkeypatch.setenv("CXX", str(compiler))
    message = r"needs a C\+\+ compiler on a CPU, and there is no .*mine; install it, or leave"
    with pytest.raises(RuntimeError, match=message):
        check_pretraining(config(**COMPILED))
    compiler.touch(mode=0o755)
    check_pretraining(config(**COMPILED))
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(pretrain_checks.sys, "platform", "linux")
    with pytest.raises(RuntimeError, match=r"there is no g\+\+;"):
        check_pretraining(config(**COMPILED))
    # The preprocessor's kernels for the CPU are not torch.compile's.
    check_pretraining(config(**{"model.data_preprocessor.compile": True}))
    check_pretraining(config())


def test_a_gpu_needs_triton(monkeypatch):
    monkeypatch.setattr(pretrain_checks, "get_device", lambda: "cuda")
    monkeypatch.setenv("CXX", "nowhere")
    found = {"triton": None}
    monkeypatch.setattr(importlib.util, "find_spec", found.get)
    for key in ("model.compile_backbone", "model.data_preprocessor.compile"):
        with pytest.raises(RuntimeError, match="needs the package triton for a GPU"):
            check_pretraining(config(**{key: True}))
    found["triton"] = object()
    check_pretraining(config(**COMPILED))


def test_python_must_be_one_that_torch_compiles(cpu, monkeypatch):
    monkeypatch.setattr(torch._dynamo, "is_dynamo_supported", lambda: False)
    with pytest.raises(RuntimeError, match=r"which does not support Python 3\.\d+\.\d+"):
        check_pretraining(config(**COMPILED))


@pytest.mark.parametrize("without", [{}, {"model.data_preprocessor": None}])
def test_compile_is_for_pretraining(without):
    cfg = config(**without)
    use_compile(cfg)
    assert cfg.model == {
        "type": "SSPRL",
        "compile_backbone": True,
        "data_preprocessor": {"compile": True},
    }
    for other in ("MultiLabelClassifier", "Agreement"):
        with pytest.raises(ValueError, match=f"but own.py trains {other}; leave it out"):
            use_compile(config(**{"model.type": other}))
