"""The pixel format of images other than 8-bit RGB."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from mmengine.config import Config


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
        return f"{self.channels} channel{'s' * (self.channels != 1)} of {self.dtype}"
