"""What the numbers of gpu.py are, and which gates they are judged by."""

from typing import Literal, NamedTuple

_ACTIVATION_BYTES = 318e6
"""Of one image with 28 crops, derived from the layers; G10 allows 1.35 of it."""


class Gate(NamedTuple):
    """What a row is, beside its value; see ``measure.Row``."""

    what: str
    unit: str
    gate: float | None = None
    stretch: float | None = None
    better: Literal["higher", "lower"] = "higher"


_AGAINST_PLAIN = "in crops of 224 px of equal FLOPs, against a plain ResNet"
_SHARE = "augmentation's share of a step"
_DIFFERENCE = "augmentation against the kernels of the CPU, same crops and draws, 28 crops"
GATES = {
    "G1": Gate(f"28 crops, eager: images/s {_AGAINST_PLAIN}", "x", 0.90),
    "G1-34": Gate(f"34 crops, eager: images/s {_AGAINST_PLAIN}", "x", 0.90),
    "G1-compiled": Gate(f"28 crops, compiled: images/s {_AGAINST_PLAIN}", "x", 0.90),
    "G1-34-compiled": Gate(f"34 crops, compiled: images/s {_AGAINST_PLAIN}", "x", 0.90),
    "G2": Gate("28 crops, synthetic batch, eager", "images/s", 550, 800),
    "G2-compiled": Gate("28 crops, synthetic batch, compiled", "images/s", 550, 800),
    "G6": Gate(f"{_SHARE}, 28 crops, eager", "", 0.10, better="lower"),
    "G6-compiled": Gate(f"{_SHARE}, 28 crops, compiled", "", 0.04, better="lower"),
    "C14": Gate(f"{_DIFFERENCE}, eager", "levels", 2, better="lower"),
    "C14-compiled": Gate(f"{_DIFFERENCE}, compiled", "levels", 2, better="lower"),
    "G7": Gate(
        "28 crops, eager, from JPEG with loader and prefetcher, against synthetic", "x", 0.95
    ),
    "G9": Gate(
        "the host waits for the GPU in a step between log steps, 1 if it does",
        "",
        0,
        better="lower",
    ),
    "G10": Gate(
        "peak memory per image, weights and all, 28 crops, eager",
        "MB",
        1.35 * _ACTIVATION_BYTES / 1e6,
        better="lower",
    ),
}
