"""Small backbones, data folders and runs for the tests of the benchmark's runner."""

from pathlib import Path

import torch
from helpers.models.small_ssprl import narrow_resnet
from mmengine.config import Config
from mmengine.registry import DefaultScope

from mmssprl.experiments.benchmark.protocols import METRICS, PROTOCOLS, TransferRun
from mmssprl.experiments.run import RunOutcome
from mmssprl.registry import MODELS
from mmssprl.weights import write_description

NARROW = {**narrow_resnet(3), "type": "ResNet"}
"""Not the width of the configs, which is 16."""
RESNET50 = {"type": "ResNet", "depth": 50}


def protocol(name, size="scenes"):
    return next(p for p in PROTOCOLS[size] if p.name == name)


def save_backbone(path, spec=NARROW):
    """A backbone of arbitrary weights, next to a description as training writes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with DefaultScope.overwrite_default_scope("mmssprl"):
        torch.save(MODELS.build(spec).state_dict(), path)
    (path.parent / "run.py").write_text(f"model = dict(type='SSPRL', backbone={spec!r})\n")
    write_description(path, Config.fromfile(path.parent / "run.py"))
    return path


def transfer_run(folder=".", name="linear-coco", weights="w", seed=0):
    """A run without commands."""
    folder = Path(folder) / f"{weights}_{name}_{seed}"
    return TransferRun(
        name=f"{name}, {weights}, seed {seed}",
        folder=folder,
        commands=(),
        protocol=protocol(name, "paper"),
        weights=weights,
        seed=seed,
        config=folder / "config.py",
    )


def done(weights, name, seed, *values):
    metrics = dict(zip(METRICS[name], values, strict=True))
    return transfer_run(".", name, weights, seed), RunOutcome(metrics, 2.5)


def failed(weights, name, seed, reason):
    return transfer_run(".", name, weights, seed), RunOutcome({}, 1.0, reason=reason)
