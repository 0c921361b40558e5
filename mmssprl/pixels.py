"""What images hold where that is not RGB of 8 bits."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np


class Pixels(NamedTuple):
    """Number of channels, and the type of their values: uint8, uint16, int16 or float32."""

    channels: int
    dtype: str

    @classmethod
    def build(cls, given: "Pixels | Mapping[str, Any] | None") -> "Pixels | None":
        """Take a dict of the fields, as configs hold it; None is RGB of 8 bits."""
        return cls(**given) if isinstance(given, Mapping) else given

    @classmethod
    def of_config(cls, cfg: Mapping[str, Any]) -> "Pixels | None":
        """Return what the backbone of a config was trained on."""
        model = cfg.get("model") or {}
        return cls.build((model.get("data_preprocessor") or {}).get("pixels"))

    @property
    def white(self) -> float | None:
        """The value of white of colours, which are three channels of uint8 or uint16; else None."""
        is_colour = self.channels == 3 and self.dtype.startswith("uint")
        return float(np.iinfo(self.dtype).max) if is_colour else None

    @property
    def view_dtype(self) -> str:
        """Type of decoded images and of views."""
        return "uint8" if self.dtype == "uint8" else "float32"

    def __str__(self) -> str:
        return f"{self.channels} channel{'s' * (self.channels != 1)} of {self.dtype}"
