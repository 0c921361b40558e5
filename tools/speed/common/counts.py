"""Exact counts of model and loader: FLOPs, parameters, bytes. Nothing in here is timed.

Operators are in operator_counts.py; host syncs and collectives of a run in step_counts.py.

Legend: B images, N_g crops per image in resolution group g, px the group's crop side.
"""

import pickle
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

from mmssprl.pyramid import ViewLayout
from mmssprl.registry import MODELS, OPTIM_WRAPPERS, OPTIMIZERS, TRANSFORMS

CONFIGS = Path(__file__).resolve().parents[2] / "configs" / "ssprl"
PAPER = "ssprl_resnet50_2xb64-coslr-200e_coco.py"
RELEASED = "ssprl-released_resnet50_2xb64-coslr-200e_coco.py"
SHIPPED = {28: PAPER, 34: RELEASED}
"""The shipped ResNet-50 config of each number of crops per image."""

_FLOAT32 = 4  # bytes


def shipped_config(num_crops: int = 28) -> Config:
    """Read the shipped ResNet-50 config whose layout has this many crops per image."""
    return Config.fromfile(CONFIGS / SHIPPED[num_crops])


def build_model(cfg: Mapping) -> Any:
    """Build a config's model with the weights of its constructors, in training mode.

    The queues are as in the config, and an epoch has 10 iterations.
    """
    model = MODELS.build({"_scope_": "mmssprl", **cfg["model"]})
    model.head.set_epoch_length(10)
    return model.train()


def random_batch(layout: ViewLayout, batch_size: int, seed: int = 0) -> dict[str, list[Tensor]]:
    """Return a batch as the loader gives it: uint8 noise (B, N_g, 3, px, px), channel last."""
    generator = torch.Generator().manual_seed(seed)
    shapes = [(batch_size, group.num_crops, group.px, group.px, 3) for group in layout.groups]
    noise = [torch.randint(256, s, generator=generator, dtype=torch.uint8) for s in shapes]
    return {"inputs": [crops.movedim(-1, 2) for crops in noise]}


def build_optimizer(cfg: Mapping, model: nn.Module) -> Any:
    """Build the config's optimizer in mmengine's wrapper."""
    optimizer = OPTIMIZERS.build(
        {**cfg["optim_wrapper"]["optimizer"], "params": model.parameters()}
    )
    return OPTIM_WRAPPERS.build({"type": "OptimWrapper", "optimizer": optimizer})


def loader_counts(layout: ViewLayout | Mapping) -> dict[str, int]:
    """Count what one sample of the loader holds.

    Returns:
        'tensors', 'bytes' that a worker sends for them and all other entries, and
        'float32_bytes' of the same crops as separate float32 images.
    """
    layout = ViewLayout.build(layout)
    image = torch.randint(256, (3, 480, 640), dtype=torch.uint8)
    sample = TRANSFORMS.build({"_scope_": "mmssprl", "type": "PyramidCrop", "layout": layout})(
        {"img": image, "crop_seed": (0, 0, 0)}
    )
    leaves = list(_leaves(sample))
    # A worker shares whole storages, also if a tensor shows only a part.
    storages = {
        leaf.untyped_storage().data_ptr(): leaf.untyped_storage().nbytes()
        for leaf in leaves
        if isinstance(leaf, Tensor)
    }
    others = [leaf for leaf in leaves if not isinstance(leaf, Tensor)]
    pixels = sum(group.num_crops * group.px**2 for group in layout.groups)
    return {
        "tensors": len(leaves) - len(others),
        "bytes": sum(storages.values()) + sum(len(pickle.dumps(other)) for other in others),
        "float32_bytes": 3 * pixels * _FLOAT32,
    }


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def flops_per_image(cfg: Mapping) -> dict[str, int]:
    """Count forward and backward FLOPs of one image's crops; a multiply-add is two.

    Returns:
        'conv' (the backbone's convolutions; the first has no gradient to its input) and 'heads'
        (matrix products of neck, prototypes and correlation learners).
    """
    model, fake = _fake_model(cfg)
    with fake, FlopCounterMode(display=False) as counter:
        sum(_losses(model, 1).values()).backward()
    flops = {str(op): num for op, num in counter.get_flop_counts()["Global"].items()}
    conv = sum(num for op, num in flops.items() if "convolution" in op)
    return {"conv": conv, "heads": sum(flops.values()) - conv}


def parameter_counts(cfg: Mapping) -> dict[str, int]:
    """Count parameter tensors, parameters, and bytes of their float32 gradients."""
    sizes = [p.numel() for p in build_model(cfg).parameters()]
    return {
        "tensors": len(sizes),
        "parameters": sum(sizes),
        "gradient_bytes": _FLOAT32 * sum(sizes),
    }


def activation_bytes(cfg: Mapping, *, bfloat16: bool = False) -> int:
    """Count the bytes per image that the step keeps for its backward pass.

    Each storage counts once, parameters and buffers do not. What does not grow with the batch,
    such as autocast's copies of the weights, cancels: this is two images' bytes less one's.

    Args:
        cfg: Config with ``model``.
        bfloat16: Under bfloat16 autocast instead of float32.
    """
    model, fake = _fake_model(cfg)
    own = {id_of(t) for t in [*model.parameters(), *model.buffers()]}
    totals = []
    for batch_size in (1, 2):
        saved: dict[int, tuple[int, Any]] = {}

        def keep(tensor: Tensor, saved: dict[int, tuple[int, Any]] = saved) -> Tensor:
            # The storage is held as well: a freed one's address could be given out again.
            storage = tensor.untyped_storage()
            saved.setdefault(storage._cdata, (storage.nbytes(), storage))
            return tensor

        with fake, saved_tensors_hooks(keep, lambda tensor: tensor):
            losses = _losses(model, batch_size, bfloat16)
        totals.append(sum(size for key, (size, _) in saved.items() if key not in own))
        del losses
    return totals[1] - totals[0]


def id_of(tensor: Tensor) -> int:
    """Return what is equal for tensors that share memory, and valid while one of them lives."""
    return tensor.untyped_storage()._cdata


def _fake_model(cfg: Mapping) -> tuple[Any, FakeTensorMode]:
    """Build a model whose tensors have shapes and no values: operators on them cost nothing."""
    model, fake = build_model(cfg), FakeTensorMode()
    model.head.eval()  # training, it reads the batch sizes of all ranks and fills the queues
    overwrite = torch.__future__.get_overwrite_module_params_on_conversion()
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        model._apply(fake.from_tensor)
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(overwrite)
    return model, fake


def _losses(model: Any, batch_size: int, bfloat16: bool = False) -> dict[str, Tensor]:
    inputs = [
        torch.empty(group.num_crops, batch_size, 3, group.px, group.px)
        for group in model.layout.groups
    ]
    with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
        return model(inputs, mode="loss")
