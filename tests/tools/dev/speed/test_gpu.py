"""The command that measures a GPU, on a made-up device."""

import itertools

import torch
from fake_gpu import FakeMeter, tiny_config, workload

from mmssprl.pyramid import ViewLayout
from tools.dev.speed import gpu
from tools.dev.speed.common.gates import measured
from tools.dev.speed.on_gpu.parts import Part


def test_the_shipped_workload_trains_the_shipped_configs(tmp_path, monkeypatch):
    # Mixed precision needs a GPU to be set up.
    monkeypatch.setattr("mmssprl.engine.launch.get_device", lambda: "cuda")
    monkeypatch.setattr("mmssprl.config.run_checks.get_device", lambda: "cuda")
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H200")
    given = gpu.shipped_workload(64, quick=False, folder=tmp_path)
    assert given.gate_2
    for crops, compiled in itertools.product((28, 34), (False, True)):
        cfg = given.config(crops, compiled)
        assert ViewLayout.build(cfg.model.layout).num_crops == crops
        assert bool(cfg.model.get("compile_backbone")) == compiled
        assert cfg.optim_wrapper.type == "AmpOptimWrapper"
        assert cfg.optim_wrapper.dtype == "bfloat16"
        assert cfg.optim_wrapper.optimizer.type == "LARC"
    interval = cfg.default_hooks.logger.interval
    assert given.warmup + given.guarded < interval


def test_without_cuda_there_is_one_line(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu.main(["--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert error == "gpu.py: error: no CUDA device: it measures GPUs only.\n"
    assert not (tmp_path / "out").exists()


def test_main_writes_the_report(capsys, monkeypatch, tmp_path):
    meter = FakeMeter()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(gpu, "Meter", lambda: meter)
    monkeypatch.setattr(gpu, "describe_gpu", lambda: {"gpu": "made up"})
    monkeypatch.setattr(gpu, "shipped_workload", lambda *args: workload(tiny_config()))
    parts = [Part("a", ("G7",), lambda *given: iter([measured("G7", 0.5, note="Made up.")]))]
    monkeypatch.setattr(gpu, "all_parts", lambda quick: parts)
    benchmark = torch.backends.cudnn.benchmark
    try:
        assert gpu.main(["--out", str(tmp_path), "--quick"]) == 0
    finally:
        torch.backends.cudnn.benchmark = benchmark
    text = (tmp_path / "gpu-quick.md").read_text()
    assert "G7: Made up." in text
    assert "| gpu         | made up " in text
    assert "1 of 1 gates MISSED: G7" in capsys.readouterr().out
