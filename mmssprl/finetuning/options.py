"""The options of a fine-tuning."""

from dataclasses import dataclass

from ..console.options import option, switch

LEAST_PX = 32
"""Smallest side of the images; a ResNet's last map has one cell."""


@dataclass(frozen=True, kw_only=True)
class FinetuneOptions:
    """The options of a fine-tuning; a resumed run takes ``resume`` alone."""

    epochs: int | None = option("passes over the images", least=1)
    batch_size: int | None = option("images per device and step", least=2)
    lr: float | None = option(
        "peak learning rate of AdamW; a classifier's head has at least 0.003", above=0
    )
    image_px: int | None = option(
        "side of the images (detect: shorter side)", metavar="PX", least=LEAST_PX
    )
    freeze: bool = switch("keep the backbone, train only the heads")
    val_share: float | None = option(
        "share of the images to hold out if the data have no split",
        chosen=0.2,
        metavar="SHARE",
        above=0,
        most=0.99,
    )
    share: float | None = option(
        "share of the training images to train on, drawn by the seed: 0.1; commands take 10%, too",
        chosen="all",
        above=0,
        most=1,
    )
    seed: int | None = option(
        "seed of all randomness, with these choices", chosen=0, least=0, most=2**32 - 1
    )
    resume: bool = switch("resume the run in the work dir")
