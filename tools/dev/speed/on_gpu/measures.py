"""One function per measurement of a GPU; each works on any device, which the tests use.

Legend: B images, V crops of an image.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from mmengine.config import Config
from mmengine.optim import build_optim_wrapper
from mmengine.registry import DefaultScope
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from mmssprl.functional.photometric import apply_photometric, draw_photometric
from mmssprl.functional.pooling import pool

from ..common.clock import Quartiles, quartiles, ratio, take_turns
from ..common.counts import equivalent_crops
from ..common.models import build_model, random_batch
from .meter import Meter

_NUM_CLASSES = 1000


@dataclass(frozen=True)
class Workload:
    """What is measured on a GPU, apart from the device itself.

    Args:
        batch: Images per step.
        rounds: Timed rounds of the synthetic measurements, each of all sides.
        repeats: Steps per round and side.
        warmup: Steps before all timing, in which kernels are chosen or compiled.
        guarded: Steps of the loop after these, in which the host must not wait for the device;
            none of them is logged.
        drained: Steps after these, in which most batches are used up that the loader had made.
        timed: Steps after these, which are timed and end the epoch.
        synthetic: Steps on one batch that stays on the device, before and after the epoch.
        workers: Processes of the loader.
        num_files: Different JPEG files.
        config: (crops, compiled) -> a prepared config.
        equivalent: Crops -> crops of 224 px of equal FLOPs.
        gate_2: Whether G2 judges this GPU; it is for an H200.
    """

    batch: int
    rounds: int
    repeats: int
    warmup: int
    guarded: int
    drained: int
    timed: int
    synthetic: int
    workers: int
    num_files: int
    config: Callable[[int, bool], Config]
    equivalent: Callable[[int], float] = equivalent_crops
    gate_2: bool = True

    @property
    def num_steps(self) -> int:
        """Steps of the loop's epoch."""
        return self.warmup + self.guarded + self.drained + self.timed


class Pretraining:
    """A config's model with its optimizer and one synthetic batch of B images on the device.

    The config is prepared by ``mmssprl.engine.launch``, which sets mixed precision and compilation.
    """

    def __init__(self, cfg: Config, device: torch.device, batch: int) -> None:
        self.batch = batch
        self.model = build_model(cfg).to(device)
        with DefaultScope.overwrite_default_scope("mmssprl"):
            self.optim_wrapper = build_optim_wrapper(self.model, cfg.optim_wrapper)
        self.data = random_batch(self.model.layout, batch, device)
        self.losses: dict[str, Tensor] = {}

    def step(self) -> None:
        """Augment, forward, backward, update: the step of the runner's loop."""
        self.losses = self.model.train_step(self.data, self.optim_wrapper)


class PlainResNet:
    """The same backbone with a classifier, SGD and finished crops: what the hardware can do.

    Mixed precision, compilation and the side of the crops are those of the config; ``batch`` is the
    number of crops per step.
    """

    def __init__(self, cfg: Config, device: torch.device, batch: int) -> None:
        whole = build_model(cfg)
        backbone, px = whole.backbone, whole.layout.image_px
        channels = cfg.model.neck.in_channels
        self.batch = batch
        self.mixed = cfg.optim_wrapper.type == "AmpOptimWrapper"
        self.model = _Classifier(backbone, channels).to(device)
        self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.forward = (
            torch.compile(self.model, dynamic=False) if whole.compile_backbone else self.model
        )
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        crops = torch.randn(batch, 3, px, px, device=device)
        self.crops = crops.contiguous(memory_format=torch.channels_last)
        self.labels = torch.randint(_NUM_CLASSES, (batch,), device=device)

    def step(self) -> None:
        """Forward, backward, update."""
        with torch.autocast(self.crops.device.type, torch.bfloat16, enabled=self.mixed):
            loss = F.cross_entropy(self.forward(self.crops), self.labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


class _Classifier(nn.Module):
    def __init__(self, backbone: nn.Module, channels: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.linear = nn.Linear(channels, _NUM_CLASSES)

    def forward(self, crops: Tensor) -> Tensor:
        return self.linear(pool(self.backbone(crops)))


def against_plain(
    meter: Meter, ours: Any, plain: Any, workload: Workload, equivalent: float
) -> tuple[Quartiles, Quartiles]:
    """G1: our images per second in crops of 224 px against those of a plain ResNet.

    Args:
        meter: The device.
        ours: ``Pretraining``, warm.
        plain: ``PlainResNet``, warm.
        workload: Rounds and repeats.
        equivalent: Crops of 224 px with the FLOPs of one image's crops.

    Returns:
        The ratio, and the crops per second of the plain ResNet.
    """
    sides = {"ours": ours.step, "plain": plain.step}
    seconds = take_turns(
        sides, workload.rounds, lambda work: meter.seconds_per_call(work, workload.repeats)
    )
    per_crop = [s / plain.batch for s in seconds["plain"]]
    own = [s / (ours.batch * equivalent) for s in seconds["ours"]]
    return ratio(per_crop, own), quartiles([1 / s for s in per_crop])


def images_per_second(meter: Meter, ours: Any, workload: Workload) -> Quartiles:
    """G2: synthetic batches on the device."""
    rounds = [meter.seconds_per_call(ours.step, workload.repeats) for _ in range(workload.rounds)]
    return quartiles([ours.batch / seconds for seconds in rounds])


def augmentation_share(meter: Meter, ours: Any, workload: Workload) -> tuple[Quartiles, Quartiles]:
    """G6: the preprocessor's share of the device's time, inside of running steps.

    Timed alone it would also be charged with the gaps in which it waits for the host, which the
    rest of a step covers.

    Returns:
        The share in [0, 1], and milliseconds per step.
    """
    marks: list[Any] = []
    preprocessor = ours.model.data_preprocessor
    hooks = [
        preprocessor.register_forward_pre_hook(lambda *_: marks.append(meter.mark())),
        preprocessor.register_forward_hook(lambda *_: marks.append(meter.mark())),
    ]
    shares, milliseconds = [], []
    try:
        for _ in range(workload.rounds):
            marks.clear()
            start = meter.mark()
            for _ in range(workload.repeats):
                ours.step()
            whole = meter.seconds_between(start, meter.mark())
            parts = zip(marks[::2], marks[1::2], strict=True)
            augment = sum(meter.seconds_between(begin, end) for begin, end in parts)
            shares.append(augment / whole)
            milliseconds.append(1e3 * augment / workload.repeats)
    finally:
        for hook in hooks:
            hook.remove()
    return quartiles(shares), quartiles(milliseconds)


def augmentation_difference(ours: Pretraining) -> float:
    """C14: the same crops and draws on the device and by the CPU's kernels.

    Returns:
        The greatest difference of a channel of a pixel, in levels of 255.
    """
    preprocessor = ours.model.data_preprocessor
    std = torch.tensor(preprocessor.std)[:, None, None]  # levels per unit of the result
    greatest = 0.0
    for packed in ours.data["inputs"]:
        crops = packed.transpose(0, 1)
        params = draw_photometric(
            crops.shape[:2].numel(), **preprocessor.augmentations, generator=Generator()
        )
        settings = {"mean": preprocessor.mean, "std": preprocessor.std}
        settings = {name: [v / 255 for v in values] for name, values in settings.items()}
        compiled = preprocessor._compile
        found = apply_photometric(crops, params, **settings, compile=compiled).cpu()
        difference = (found - apply_photometric(crops.cpu(), params, **settings)).abs() * std
        greatest = max(greatest, float(difference.max()))
    return greatest


def peak_bytes_per_image(meter: Meter, ours: Any) -> float:
    """G10: highest amount of memory in tensors during a step, weights and all, per image."""
    meter.reset_peak()
    ours.step()
    return meter.peak_bytes() / ours.batch
