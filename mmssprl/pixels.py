"""What an image holds where it is not RGB of 8 bits: its number of channels, and their type."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Pixels:
    """What each image of a data set holds where that is not RGB of 8 bits.

    Args:
        channels: C.
        dtype: Type of the values in the files: uint8, uint16, int16 or float32.
    """

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
        """The value of white where the channels are the colours R, G, B: three of uint8 or uint16.

        None where they are no colours.
        """
        is_colour = self.channels == 3 and self.dtype.startswith("uint")
        return float(np.iinfo(self.dtype).max) if is_colour else None

    @property
    def num_bytes(self) -> int:
        """Bytes of a pixel of a view."""
        return self.channels * (1 if self.dtype == "uint8" else 4)

    def __str__(self) -> str:
        return f"{self.channels} channel{'s' * (self.channels != 1)} of {self.dtype}"
