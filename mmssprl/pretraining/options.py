"""The options of a pre-training."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..console.durations import parse_duration
from ..console.options import option, switch
from ..console.paths import check_data
from ..weights.sources import check_weights
from .known_backbones import DEFAULT_BACKBONE, check_backbone_name
from .methods import CONTINUED, DEFAULT, DISTILL, PRETRAINED, find_method


@dataclass(frozen=True, kw_only=True)
class PretrainOptions:
    """The options of ``mmssprl.pretrain`` and of ``python -m mmssprl pretrain``."""

    method: str | None = option(
        f"pre-training method: {', '.join(PRETRAINED)}. ssprl is the paper's form, "
        "ssprl-small-sampled ours; docs/compare.md compares them",
        chosen=f"{DEFAULT}; {DISTILL.key} with a teacher; {CONTINUED} with weights",
        check=lambda key, name: find_method(key),
    )
    backbone: str | None = option(
        "network to pre-train: resnet18, resnet34, resnet50, resnet101, convnext-tiny, swin-tiny, "
        "vit-small, timm/NAME, or package.module:function, which returns your own torch.nn.Module",
        chosen=DEFAULT_BACKBONE,
        metavar="NAME",
        check=lambda value, name: check_backbone_name(value),
    )
    epochs: int | None = option("passes over the images", least=1)
    budget: str | None = option(
        "choose the epochs so that the run, with its report, fits into this time: 90m, 2h, 1d",
        chosen="no limit",
        metavar="TIME",
        check=parse_duration,
    )
    batch_size: int | None = option("images per device and backbone pass", least=1)
    accumulate: int | None = option(
        "multiply the batch by this number at the same memory: the backbone processes each step in "
        "so many parts. Not for mocov2, byol, densecl, detco, insloc and maskco",
        chosen=1,
        least=1,
    )
    image_px: int | None = option("side of the image views", metavar="PX")
    lr: float | None = option("learning rate after the warm-up", above=0)
    channels: int | None = option(
        "number of channels, for images other than 8-bit RGB: TIFF, PNG or .npy files of uint8, "
        "uint16, int16 or float32. They are read as stored and normalised by their own means and "
        "deviations. Three channels of uint8 or uint16 are colours",
        chosen="all become 8-bit RGB",
        metavar="C",
        least=1,
    )
    weights: str | Path | None = option(
        "backbone weights to start from: supervised (torchvision's ResNet, trained on ImageNet), "
        "timm/NAME (timm's weights), timm/NAME:FILE (timm's, DINOv2's or DINOv3's), a file of ours "
        "or of torchvision, or package.module:function with the weights that it returns (with "
        "--backbone, own)",
        chosen="random",
        metavar="WEIGHTS",
        check=check_weights,
    )
    teacher: str | Path | None = option(
        "network to distil, by method distill. It sees each image once. Takes what --weights "
        "takes, if the network returns a feature map. With the value of --weights, the run keeps "
        "the features of these weights",
        chosen="none; supervised for distill; --weights for SS-PRL and SwAV",
        metavar="WEIGHTS",
        check=check_weights,
    )
    gpus: int | None = option("GPUs to train on", chosen="all", metavar="N")
    num_workers: int | None = option("reading processes per device", metavar="N", least=0)
    probe: str | Path | None = option(
        "labelled images, as for finetune, that score the frozen features before, during and "
        "after the training",
        chosen="none",
        metavar="DATA",
        check=check_data,
    )
    cfg_options: Mapping[str, Any] | None = option(
        "values of the config to replace, by dotted key; unused keys are refused",
        chosen="none",
        metavar="KEY=VALUE",
    )
    seed: int | None = option("seed of all randomness", chosen=0, least=0, most=2**32 - 1)
    dry_run: bool = switch("print recipe and forecast, and stop; write nothing")
    resume: bool = switch("resume the run in the work dir, with its config")
