"""The formats that `export` writes: an entry each. Command, help, tests and docs follow this table.

It imports no torch, because the choices of ``--to`` come from it. So the functions are named by
module and imported when they are used.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any


@dataclass(frozen=True)
class Target:
    """A format of files.

    Attributes:
        suffix: End of the name of its files.
        holds: What a file holds, for the help and the table in docs/weights.md.
        writer: module:function of this folder. It takes a backbone, the backbone's config and a
            path, and writes the file, or raises ValueError if the format cannot hold the backbone.
        reader: module:function of this folder. It takes the path and the config, and returns a
            function from normalised images (N, C, H, W) to ``Features``.
        tolerance: Largest difference of the features that are read back, relative to the largest.
            The default allows float32 sums in another order.
        is_described: Whether NAME.json is written next to the file, so that our commands take it.
    """

    suffix: str
    holds: str
    writer: str
    reader: str
    tolerance: float = 1e-5
    is_described: bool = False

    @property
    def write(self) -> Callable[..., None]:
        """The function that writes a file."""
        return _find(self.writer)

    @property
    def read(self) -> Callable[..., Any]:
        """The function that reads a file back."""
        return _find(self.reader)


TARGETS = {
    "pth": Target(
        ".pth",
        "a state dict with the network's names; a ResNet's are torchvision's, which timm, "
        "mmpretrain, mmdet and mmseg read too",
        writer="state_files:write_pth",
        reader="state_files:read_state_file",
        is_described=True,
    ),
    "safetensors": Target(
        ".safetensors",
        "the same as safetensors",
        writer="state_files:write_safetensors",
        reader="state_files:read_state_file",
        is_described=True,
    ),
    "onnx": Target(
        ".onnx",
        "a graph from images to their last feature map and pooled features",
        writer="onnx:write_onnx",
        reader="onnx:read_onnx",
        tolerance=1e-4,  # onnxruntime fuses BatchNorm into the convolutions
    ),
    "detectron2": Target(
        ".pkl",
        "detectron2's pickle with its names",
        writer="detectron2:write_detectron2",
        reader="state_files:read_state_file",
    ),
}
"""Targets by the name that users type. Each takes fewer networks than those before it."""


def earlier_targets(name: str) -> str:
    """Return the targets that take more networks than this one, in words."""
    names = [*TARGETS]
    *others, last = names[: names.index(name)]
    return f"{', '.join(others)} or {last}" if others else last


def _find(place: str) -> Any:
    return resolve_name(f"{__package__}.{place}")
