"""The options of a pre-training."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..console.options import option, switch
from .methods import DEFAULT, PRETRAINED

DEFAULT_BACKBONE = "resnet50"


@dataclass(frozen=True, kw_only=True)
class PretrainOptions:
    """The options of ``mmssprl.pretrain`` and of ``python -m mmssprl pretrain``.

    A resumed run takes ``resume`` alone.
    """

    method: str | None = option(
        f"what to train by: {', '.join(PRETRAINED)}; ssprl is the paper's form, "
        "ssprl-small-sampled ours, see docs/compare.md",
        chosen=DEFAULT,
    )
    backbone: str | None = option(
        "what to pre-train: resnet18, resnet34, resnet50, resnet101, convnext-tiny, swin-tiny, "
        "vit-small, timm/NAME, a network of timm, or package.module:function, which returns a "
        "torch.nn.Module of yours",
        chosen=DEFAULT_BACKBONE,
        metavar="NAME",
    )
    epochs: int | None = option("passes over the images", least=1)
    budget: str | None = option(
        "choose the epochs so that all of it, report included, fits into this time: 90m, 2h, 1d",
        chosen="no limit",
        metavar="TIME",
    )
    batch_size: int | None = option("images per device and backbone pass", least=1)
    accumulate: int | None = option(
        "multiply the batch by this without its memory: the backbone sees a step's images in so "
        "many parts; LARC's lr follows the images of a step, AdamW's only up to 64; for ssprl, "
        "swav and swav-small alone",
        chosen=1,
        least=1,
    )
    image_px: int | None = option("side of the image views", metavar="PX")
    lr: float | None = option("learning rate after the warm-up", above=0)
    channels: int | None = option(
        "channels of images that are not RGB of 8 bits: TIFF, PNG or .npy files of so many, of "
        "uint8, uint16, int16 or float32, read as stored and normalised by their own means and "
        "deviations; three of uint8 or uint16 are colours",
        chosen="all become RGB of 8 bits",
        metavar="C",
        least=1,
    )
    weights: str | Path | None = option(
        "start from a backbone's weights: a file of ours, of torchvision, of timm or of DINOv2's "
        "and DINOv3's authors, supervised (torchvision's ResNet, trained on ImageNet), timm/NAME "
        "(timm's weights), timm/NAME:FILE, or own (those that a backbone package.module:function "
        "has)",
        chosen="random",
        metavar="WEIGHTS",
    )
    teacher: str | Path | None = option(
        "distil this network, which sees each image once: weights as of --weights, of any network "
        "that gives a map; chooses the method distill. The same as --weights keeps their features",
        chosen="none; supervised for distill; the weights that SS-PRL or SwAV starts from",
        metavar="WEIGHTS",
    )
    gpus: int | None = option("GPUs to train on", chosen="all", metavar="N")
    num_workers: int | None = option("reading processes per device", metavar="N", least=0)
    probe: str | Path | None = option(
        "score the frozen features of these labelled images (as of finetune) before, during and "
        "after the training",
        chosen="none",
        metavar="DATA",
    )
    cfg_options: Mapping[str, Any] | None = option(
        "values that replace those of the config that the recipe becomes, by dotted key; a key "
        "that no run reads is refused",
        chosen="none",
        metavar="KEY=VALUE",
    )
    seed: int | None = option("of all randomness", chosen=0, least=0, most=2**32 - 1)
    dry_run: bool = switch("stop after recipe and forecast; write nothing")
    resume: bool = switch("resume the run in the work dir, with the config that it holds")
