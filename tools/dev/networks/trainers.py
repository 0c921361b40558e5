"""One training step of each package's own trainer, from the weights of a pre-training.

Each function returns the backbone's tensors as the trainer had them before its first step.
"""

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.registry import DefaultScope
from mmengine.runner import Runner
from torch import Tensor

from mmssprl.weights.names import to_detectron2

from .data import IMAGE_PX, Scenes

State = Mapping[str, Tensor]
Trainer = Callable[[ModuleType, str, Scenes, Path], State]
"""Called with an example, its weights, data and a folder for what it writes."""


def copied(state: State) -> State:
    """Return a copy of a state dict, which a training does not change."""
    return {name: value.clone() for name, value in state.items()}


def of_ultralytics(example: ModuleType, weights: str, scenes: Scenes, folder: Path) -> State:
    """Train for an epoch in ultralytics' trainer."""
    detector = example.load(weights)
    found: dict[str, Tensor] = {}

    def note(trainer: Any) -> None:
        found.update(copied(trainer.model.model[: example.NUM_LAYERS].state_dict()))

    detector.add_callback("on_train_start", note)
    options = {"epochs": 1, "imgsz": IMAGE_PX, "batch": 8, "workers": 0, "plots": False}
    example.train(detector, str(scenes.yolo), device="cpu", project=str(folder), **options)
    return found


def of_torchvision(example: ModuleType, weights: str, scenes: Scenes, folder: Path) -> State:
    """Take a step of a detector."""
    network = example.load(weights)
    state = copied(network.backbone.body.state_dict())
    images = [torch.rand(3, IMAGE_PX, IMAGE_PX) for _ in range(2)]
    target = {"boxes": torch.tensor([[10.0, 10.0, 60.0, 60.0]]), "labels": torch.tensor([1])}
    _finite(example.train_step(network, images, [target, copy.deepcopy(target)]))
    return state


def of_detectron2(example: ModuleType, weights: str, scenes: Scenes, folder: Path) -> State:
    """Take a step in detectron2's trainer; return the tensors under our names."""
    from detectron2.structures import Boxes, Instances

    network = example.load(weights, "cpu")
    theirs = copied(network.backbone.bottom_up.state_dict())
    boxes = Boxes(torch.tensor([[10.0, 10.0, 60.0, 60.0]]))
    size = IMAGE_PX, IMAGE_PX
    objects = Instances(size, gt_boxes=boxes, gt_classes=torch.tensor([1]))
    image = torch.randint(256, (3, *size), dtype=torch.uint8)
    example.train_step(network, [{"image": image, "instances": objects}])

    names = {name: to_detectron2(name) for name in torch.load(weights, weights_only=True)}
    return {name: theirs[other] for name, other in names.items() if other is not None}


def of_smp(example: ModuleType, weights: str, scenes: Scenes, folder: Path) -> State:
    """Take a step of a U-Net."""
    network = example.load(weights)
    state = copied(network.encoder.state_dict())
    images = torch.rand(2, 3, IMAGE_PX, IMAGE_PX)
    masks = torch.randint(2, (2, 1, IMAGE_PX, IMAGE_PX)).float()
    _finite(example.train_step(network, images, masks))
    return state


def of_timm(example: ModuleType, weights: str, scenes: Scenes, folder: Path) -> State:
    """Take a step of a classifier with timm's optimizer."""
    from timm.optim import create_optimizer_v2

    network = example.load(weights)
    state = copied(network.state_dict())
    optimizer = create_optimizer_v2(network, opt="adamw", lr=1e-4)
    logits = network.train()(torch.rand(4, 3, IMAGE_PX, IMAGE_PX))
    loss = torch.nn.functional.cross_entropy(logits, torch.arange(4))
    loss.backward()
    optimizer.step()
    _finite(loss.item())
    return state


def of_transformers(example: ModuleType, weights: str, scenes: Scenes, folder: Path) -> State:
    """Take a step in transformers' Trainer."""
    from transformers import Trainer, TrainingArguments

    network = example.load(weights)
    state = copied(network.vit.state_dict())
    rows = [{"pixel_values": torch.rand(3, 224, 224), "labels": i % 2} for i in range(4)]
    options = TrainingArguments(
        str(folder), max_steps=1, per_device_train_batch_size=4, report_to=[], use_cpu=True
    )
    _finite(Trainer(network, options, train_dataset=rows).train().training_loss)
    return state


def of_mmdet(example: ModuleType, weights: str, scenes: Scenes, folder: Path) -> State:
    """Train for a step in mmengine's Runner on COCO's layout."""
    cfg = example.load(weights)
    pipeline = [
        {"type": "LoadImageFromFile"},
        {"type": "LoadAnnotations", "with_bbox": True},
        {"type": "Resize", "scale": (IMAGE_PX, IMAGE_PX)},
        {"type": "PackDetInputs"},
    ]
    dataset = {
        "type": "CocoDataset",
        "ann_file": str(scenes.coco),
        "data_prefix": {"img": f"{scenes.images}/"},
        "metainfo": {"classes": scenes.classes},
        "pipeline": pipeline,
    }
    return _run(cfg, dataset, folder)


def of_mmseg(example: ModuleType, weights: str, scenes: Scenes, folder: Path) -> State:
    """Train for a step in mmengine's Runner on label images."""
    cfg = example.load(weights)
    pipeline = [
        {"type": "LoadImageFromFile"},
        {"type": "LoadAnnotations"},
        {"type": "PackSegInputs"},
    ]
    dataset = {
        "type": "BaseSegDataset",
        "data_prefix": {"img_path": str(scenes.images), "seg_map_path": str(scenes.masks)},
        "metainfo": {"classes": ["background", "object"]},
        "img_suffix": ".jpg",
        "pipeline": pipeline,
    }
    return _run(cfg, dataset, folder)


def _run(cfg: Config, dataset: Mapping[str, Any], folder: Path) -> State:
    """Train a config for one step, with its own model and optimizer, on other data."""
    cfg.train_dataloader = {
        "batch_size": 2,
        "num_workers": 0,
        "sampler": {"type": "DefaultSampler", "shuffle": True},
        "dataset": dataset,
    }
    cfg.train_cfg = {"type": "IterBasedTrainLoop", "max_iters": 1}
    for key in ("val", "test"):
        for part in ("cfg", "dataloader", "evaluator"):
            cfg[f"{key}_{part}"] = None
    cfg.param_scheduler = None
    cfg.custom_hooks = []
    cfg.work_dir = str(folder)
    cfg.experiment_name = folder.name
    start = Start()
    with DefaultScope.overwrite_default_scope(cfg.default_scope):
        runner = Runner.from_cfg(cfg)
        runner.register_hook(start)
        runner.train()
    return start.state


class Start(Hook):
    """Copies the backbone before the first step."""

    state: State

    def before_train(self, runner: Runner) -> None:
        """Copy the tensors that ``init_cfg`` has loaded."""
        self.state = copied(runner.model.backbone.state_dict())


def _finite(loss: float) -> None:
    if not torch.isfinite(torch.tensor(loss)):
        raise ValueError(f"the loss of a step must be finite, but is {loss}")
