"""How much a pre-training computes, counted without its data and without computing it."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope
from mmengine.runner import Runner
from PIL import Image
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from ..engine.launch import prepare_train_config
from ..errors import UserValueError
from ..models import pretraining_class
from ..weights.backbone import build_model

_IMAGE_PX = (640, 480)
"""Size of the images that stand in for the data; the views have the sizes of the config."""


@cache
def flops_per_image(config: Path) -> int:
    """Count what a step of a pre-training config computes for one image, forward and backward.

    Convolutions and matrix products count, those of networks without gradient, too, and a
    multiply-add is two operations. Tensors have shapes and no values: it takes seconds.
    """
    cfg = Config.fromfile(config)
    kind = pretraining_class(cfg)
    if kind is None:
        raise UserValueError(f"config must be one of a pre-training, but got {config}.")
    num_images = kind.batch_unit(cfg.model)
    with TemporaryDirectory() as folder, DefaultScope.overwrite_default_scope("mmssprl"):
        for number in range(num_images):
            Image.new("RGB", _IMAGE_PX).save(Path(folder, f"{number}.jpg"))
        options = {
            "train_dataloader.batch_size": num_images,
            "train_dataloader.num_workers": 0,
            "train_dataloader.persistent_workers": False,
            "train_dataloader.pin_memory": False,
            "train_dataloader.dataset.data_root": folder,
        }
        cfg = prepare_train_config(cfg, work_dir=Path(folder, "run"), cfg_options=options)
        batch = next(iter(Runner.build_dataloader(cfg.train_dataloader, seed=0)))
    model = build_model(cfg.model)
    model.on_epoch_length(1)
    model.on_training_length(1)
    batch = model.train().data_preprocessor(batch, training=True)
    fake = without_values(model)
    with fake, FlopCounterMode(display=False) as counter:
        inputs = [fake.from_tensor(views) for views in batch["inputs"]]
        terms = model(inputs, batch.get("data_samples"), mode="loss")
        torch.stack([*terms.values()]).sum().backward()
    return counter.get_total_flops() // num_images


def without_values(model: nn.Module) -> FakeTensorMode:
    """Leave a model's tensors their shapes alone: in this mode operators on them cost nothing."""
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    overwrite = torch.__future__.get_overwrite_module_params_on_conversion()
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        model._apply(fake.from_tensor)
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(overwrite)
    return fake
