"""Small backbones, data folders and runs for the tests of the benchmark's runner."""

import sys
from pathlib import Path

import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope

from mmssprl.experiments.benchmark.protocols import METRICS, PROTOCOLS, TransferRun
from mmssprl.experiments.run import RunOutcome
from mmssprl.registry import MODELS
from mmssprl.weights import write_description

NARROW = {
    "type": "ResNet",
    "depth": 18,
    "stem_channels": 8,
    "base_channels": 8,
    "num_stages": 3,
    "strides": (1, 2, 2),
    "dilations": (1, 1, 1),
    "out_indices": (2,),
}
"""Not the width of the configs, which is 16."""
RESNET50 = {"type": "ResNet", "depth": 50}

PAPER_FILES = [
    "coco/annotations/instances_train2014.json",
    "coco/annotations/instances_val2014.json",
    "VOCdevkit/VOC2007/ImageSets/Main/trainval.txt",
    "VOCdevkit/VOC2007/ImageSets/Main/test.txt",
    "VOCdevkit/VOC2012/ImageSets/Segmentation/train_aug.txt",
    "VOCdevkit/VOC2012/ImageSets/Segmentation/val.txt",
]
PAPER_FOLDERS = [
    "coco/train2014",
    "coco/val2014",
    "VOCdevkit/VOC2012/JPEGImages",
    "VOCdevkit/VOC2012/SegmentationClass",
    "VOCdevkit/VOC2012/SegmentationClassAug",
]


def protocol(name, size="scenes"):
    return next(p for p in PROTOCOLS[size] if p.name == name)


def write_paper_data(root):
    """The names of the paper's data; what is in them names no image."""
    for name in PAPER_FOLDERS:
        (root / name).mkdir(parents=True)
    for name in PAPER_FILES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text('{"images": [], "annotations": [], "categories": []}')
    return root


def save_backbone(path, spec=NARROW, *, with_config=True):
    """A backbone of arbitrary weights, with a description beside it as training leaves it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with DefaultScope.overwrite_default_scope("mmssprl"):
        torch.save(MODELS.build(spec).state_dict(), path)
    if with_config:
        (path.parent / "run.py").write_text(f"model = dict(type='SSPRL', backbone={spec!r})\n")
        write_description(path, Config.fromfile(path.parent / "run.py"))
    return path


def script_commands(*scripts):
    return tuple((sys.executable, "-S", "-c", script) for script in scripts)


def script_run(folder, *scripts, name="linear-coco", weights="w", seed=0):
    """A run whose commands are Python scripts instead of training and test."""
    folder = Path(folder) / f"{weights}_{name}_{seed}"
    return TransferRun(
        name=f"{name}, {weights}, seed {seed}",
        folder=folder,
        commands=script_commands(*scripts),
        protocol=protocol(name, "paper"),
        weights=weights,
        seed=seed,
        config=folder / "config.py",
    )


def gives(run, metrics):
    """The script of a test that ends with these metrics, as JSON."""
    return f"open({str(run.measured_file)!r}, 'w').write({metrics!r})"


def done(weights, name, seed, *values):
    metrics = dict(zip(METRICS[name], values, strict=True))
    return script_run(".", name=name, weights=weights, seed=seed), RunOutcome(metrics, 2.5)


def failed(weights, name, seed, reason):
    run = script_run(".", name=name, weights=weights, seed=seed)
    return run, RunOutcome({}, 1.0, reason=reason)
