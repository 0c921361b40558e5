"""The pixel format of images, and the numbers that normalise them."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from mmengine.config import Config

from .errors import UserValueError

IMAGENET_MEAN = (123.675, 116.28, 103.53)
"""Mean of ImageNet's red, green and blue, in 0 to 255."""
IMAGENET_STD = (58.395, 57.12, 57.375)
"""Standard deviation of the same."""


class Pixels(NamedTuple):
    """Number of channels, and their dtype: uint8, uint16, int16 or float32."""

    channels: int
    dtype: str

    @classmethod
    def build(cls, given: Any) -> "Pixels | None":
        """Return the format of a dict, a backbone or its config; None is 8-bit RGB."""
        if isinstance(given, Config):
            model = given.get("model") or {}
            return cls.build((model.get("data_preprocessor") or {}).get("pixels"))
        if isinstance(given, Mapping):
            return cls(**given)
        return given if given is None or isinstance(given, cls) else given.pixels

    @property
    def white(self) -> float | None:
        """Value of white for colours (three channels of uint8 or uint16), else None."""
        is_colour = self.channels == 3 and self.dtype.startswith("uint")
        return float(np.iinfo(self.dtype).max) if is_colour else None

    @property
    def view_dtype(self) -> str:
        """The dtype of decoded images and of views."""
        return "uint8" if self.dtype == "uint8" else "float32"

    def __str__(self) -> str:
        noun = "channel" if self.channels == 1 else "channels"
        return f"{self.channels} {noun} of {self.dtype}"


RGB = Pixels(3, "uint8")
"""The format of images for which none is named."""


class Normalisation(NamedTuple):
    """Mean and deviation of each channel, by which images are normalised, and their source.

    Attributes:
        mean: In the unit of the pixels: 0 to 255 for 8-bit RGB.
        std: As ``mean``, > 0.
        source: Where the numbers are from, as printed after "of".
        pixels: The format of the images; None is 8-bit RGB.
    """

    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD
    source: str = "ImageNet"
    pixels: Pixels | None = None

    @classmethod
    def of_config(cls, cfg: Config) -> "Normalisation":
        """Return the numbers of a training's config: ImageNet's if it sets none."""
        given = cfg.model.get("data_preprocessor") or cfg.get("data_preprocessor") or {}
        mean = given.get("mean") or IMAGENET_MEAN
        std = given.get("std") or IMAGENET_STD
        return cls(tuple(mean), tuple(std), str(cfg.filename), Pixels.build(cfg))

    @property
    def numbers(self) -> dict[str, list[float]]:
        """Mean and std as arguments of a data preprocessor."""
        return {"mean": list(self.mean), "std": list(self.std)}

    def equals(self, other: "Normalisation") -> bool:
        """Whether the numbers are the same, up to rounding."""
        pairs = [*zip(self.mean, other.mean, strict=False), *zip(self.std, other.std, strict=False)]
        is_close = all(math.isclose(one, two, rel_tol=1e-5, abs_tol=1e-9) for one, two in pairs)
        return len(self.mean) == len(other.mean) and is_close

    def fits(self, pixels: Pixels | None) -> bool:
        """Whether they apply to images of a format: the same one, or colours of another depth."""
        own = self.pixels or RGB
        wanted = pixels or RGB
        return own == wanted or None not in (own.white, wanted.white)

    def for_pixels(self, pixels: Pixels | None) -> "Normalisation":
        """Return the same in the unit of images; ValueError unless it ``fits`` them."""
        own = self.pixels or RGB
        wanted = pixels or RGB
        if own == wanted:
            return self

        if own.white is None or wanted.white is None:
            raise UserValueError(
                f"weights must be of {wanted}, as the images are, but the weights of "
                f"{self.source} are of {own}; use them with probe or embed, or pre-train with "
                "channels."
            )

        unit = wanted.white / own.white
        mean = tuple(unit * value for value in self.mean)
        std = tuple(unit * value for value in self.std)
        return Normalisation(mean, std, self.source, pixels)

    def __str__(self) -> str:
        mean = ", ".join(f"{value:.4g}" for value in self.mean)
        std = ", ".join(f"{value:.4g}" for value in self.std)
        return f"mean {mean}, deviation {std}"
