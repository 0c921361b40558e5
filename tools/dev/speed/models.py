"""The shipped ResNet-50 models, their batches, images and FLOPs, as all measurements take them.

Legend: B images, N_g crops per image in resolution group g, px the group's crop side.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from mmengine.config import Config
from PIL import Image
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from mmssprl.datasets import UnlabeledImages
from mmssprl.datasets.scenes.generate import draw_scene
from mmssprl.engine import larc
from mmssprl.functional import _cpu_batch, photometric
from mmssprl.pyramid import ViewLayout
from mmssprl.registry import MODELS

CONFIGS = Path(__file__).resolve().parents[3] / "configs" / "ssprl"
SHIPPED = {
    28: "ssprl_resnet50_2xb64-coslr-200e_coco.py",
    34: "ssprl-released_resnet50_2xb64-coslr-200e_coco.py",
}
"""The shipped ResNet-50 config of each number of crops per image."""
_PLAIN_PX = 224
_LONG_PX = 640
_SHORT_PX = 480
_GRAIN = 13.0
"""Deviation, in levels, of the brightness noise that gives a scene the bytes of a photograph."""

Batch = dict[str, list[Tensor]]


def shipped_config(num_crops: int = 28) -> Config:
    """Read the shipped ResNet-50 config with this many crops per image."""
    return Config.fromfile(CONFIGS / SHIPPED[num_crops])


def build_model(cfg: Mapping) -> Any:
    """Build a config's model in training mode, for epochs of 10 iterations."""
    model = MODELS.build({"_scope_": "mmssprl", **cfg["model"]})
    model.on_epoch_length(10)
    return model.train()


def random_batch(layout: ViewLayout, batch_size: int, device: str | torch.device = "cpu") -> Batch:
    """Return a batch as the loader gives it: uint8 noise (B, N_g, 3, px, px), channel last."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(batch_size, group.num_crops, group.px, group.px, 3) for group in layout.groups]
    noise = [torch.randint(256, s, generator=generator, dtype=torch.uint8) for s in shapes]
    return {"inputs": [crops.to(device).movedim(-1, 2) for crops in noise]}


def our_loader(folder: str | Path, layout: ViewLayout) -> UnlabeledImages:
    """Return our data set as a pre-training config builds it, in its first epoch."""
    dataset = UnlabeledImages(
        data_root=str(folder), pipeline=[{"type": "PyramidCrop", "layout": layout}]
    )
    dataset.set_epoch(0, seed=0)
    return dataset


@contextmanager
def device_path() -> Iterator[None]:
    """Take the paths of a device, in augmentation and LARC, on the CPU."""
    with (
        mock.patch.object(_cpu_batch, "augment", photometric.augment_on_device),
        mock.patch.object(larc, "_norms", larc.norms_on_device),
    ):
        yield


def write_images(root: Path, num_images: int) -> Path:
    """Write the same scenes of 640x480 px and about 160 kB on every call; return ``root``."""
    root.mkdir(parents=True, exist_ok=True)
    for i in range(num_images):
        scene = draw_scene(0, "train", i, _LONG_PX).image[:_SHORT_PX]
        # The same noise in all channels: chroma is halved by the JPEG and would lose it.
        grain = np.random.default_rng(i).normal(0, _GRAIN, scene.shape[:2])[..., None]
        image = np.clip(np.rint(scene + grain), 0, 255).astype(np.uint8)
        if i % 4 == 3:
            image = image.swapaxes(0, 1)
        Image.fromarray(image).save(root / f"{i:06}.jpg", quality=92)
    return root


def flops_per_image(cfg: Mapping) -> int:
    """Count forward and backward FLOPs of the backbone's convolutions for one image's crops.

    A multiply-add is two; the first convolution has no gradient to its input.
    """
    model, fake = _fake_model(cfg)
    with fake, FlopCounterMode(display=False) as counter:
        inputs = [torch.empty(g.num_crops, 1, 3, g.px, g.px) for g in model.layout.groups]
        torch.stack(list(model(inputs, mode="loss").values())).sum().backward()
    return _of_convolutions(counter)


def equivalent_crops(num_crops: int) -> float:
    """How many crops of 224 px cost the backbone as many FLOPs as the crops of one image."""
    model, fake = _fake_model(shipped_config(num_crops))
    with fake, FlopCounterMode(display=False) as counter:
        model.backbone(torch.empty(1, 3, _PLAIN_PX, _PLAIN_PX))[-1].sum().backward()
    return flops_per_image(shipped_config(num_crops)) / _of_convolutions(counter)


def _of_convolutions(counter: FlopCounterMode) -> int:
    flops = counter.get_flop_counts()["Global"].items()
    return sum(number for operator, number in flops if "convolution" in str(operator))


def _fake_model(cfg: Mapping) -> tuple[Any, FakeTensorMode]:
    model = build_model(cfg)
    model.head.eval()  # training, it reads the batch sizes of all ranks and fills the queues
    # Its tensors have shapes alone: in this mode operators on them cost nothing.
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    swapping = "set_overwrite_module_params_on_conversion"
    with mock.patch.object(torch.__future__, f"g{swapping[1:]}", return_value=True):
        model._apply(fake.from_tensor)
    return model, fake
