"""What is measured, and what is fast enough: one line for each number of a report.

A gate must be met, a stretch would be excellent, and a line without either informs.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple


class Gate(NamedTuple):
    """What a number is, and what it is judged by.

    Attributes:
        what: What the number is, in one line.
        unit: ``"x"`` for a ratio.
        gate: What must be reached; equal to it is enough. None for a number that informs.
        stretch: What would be excellent, at least as hard as the gate.
        better: Whether a higher or a lower number is better.
    """

    what: str
    unit: str
    gate: float | None = None
    stretch: float | None = None
    better: Literal["higher", "lower"] = "higher"


@dataclass(frozen=True)
class Row:
    """One measured number.

    Args:
        id: The gate, such as ``"C1"``, or a short name where there is none. Unique in a report.
        judged: What the number is and what it is judged by.
        value: The number; NaN meets no gate.
        quartiles: Lower and upper quartile over the rounds, where there were rounds.
        note: What a reader must know to judge the number.
    """

    id: str
    judged: Gate
    value: float
    quartiles: tuple[float, float] | None = None
    note: str = ""

    @property
    def passed(self) -> bool | None:
        """Whether the gate is met; None without a gate."""
        return self._reaches(self.judged.gate)

    @property
    def reached_stretch(self) -> bool | None:
        """Whether the stretch is met; None without one."""
        return self._reaches(self.judged.stretch)

    def _reaches(self, bound: float | None) -> bool | None:
        if bound is None:
            return None
        return self.value >= bound if self.judged.better == "higher" else self.value <= bound


def measured(
    row_id: str, *values: float, note: str = "", gates: bool = True, info: Gate | None = None
) -> Row:
    """Return the row of a number.

    Args:
        row_id: Id in ``GATES``, or any other with ``info``.
        values: The number, or the median with the lower and the upper quartile.
        note: See ``Row``.
        gates: False where the gate does not judge this run.
        info: What the number is, if it is not in ``GATES``.
    """
    judged = info or GATES[row_id]
    if not gates:
        judged = judged._replace(gate=None, stretch=None)
    value, *quartiles = values
    return Row(row_id, judged, value, (quartiles[0], quartiles[1]) if quartiles else None, note)


MIN_P = 0.01
"""Of all tests of distributions together: smallest p times their number (Bonferroni)."""

_START = "start-up of the data set by the clock,"
_GROWTH = "growth of a worker's own memory per path that it reads"
_TAR = "tar file against folder,"
_STEP_FLOPS = "convolution FLOPs over the GEMM peak and the time of"

_CPU = {
    "C1": Gate("our loader against torchvision/PIL, 34 crops", "x", 10, 18),
    "C2": Gate("the same with our photometric work on the CPU, 34 crops", "x", 4, 10),
    "C3": Gate("our loader against decoding alone, 34 crops", "x", 3, 2, "lower"),
    "C5": Gate(
        "bytes per image crossing processes, against float32 crops", "x", 0.26, better="lower"
    ),
    "C6": Gate("tensors per sample", "", 4, better="lower"),
    "C7": Gate(f"{_STEP_FLOPS} the whole step", "x", 0.42, 0.55),
    "C8": Gate(
        "whole training step against forward and backward of the backbone alone",
        "x",
        1.10,
        1.03,
        "lower",
    ),
    "C9": Gate(
        "host syncs of a step between log steps, in mmengine's runner", "", 0, better="lower"
    ),
    "C10": Gate("collectives a step for all Sinkhorn problems", "", 4, 3, "lower"),
    "C12": Gate(
        "relative error of LARC in float32 against float64, 4 steps", "", 1e-6, better="lower"
    ),
    "C13": Gate("our loader against mmpretrain's MultiView pipeline, 34 crops", "x", 3, 6),
    "C14_crop": Gate("resized crops: share of pixels within 1 level of PIL", "", 0.99),
    "C14_jitter": Gate(
        "colour jitter: greatest difference to torchvision, of 1", "", 2 / 255, better="lower"
    ),
    "C14_blur": Gate("blur: share of values within 2 levels of PIL", "", 0.99),
    "C14_draws": Gate("distributions of boxes, flips, colours, blurs: p, all tests", "", MIN_P),
    "start_folder": Gate(f"{_START} from a folder", "s", 10, better="lower"),
    "start_list": Gate(f"{_START} from a text file", "s", better="lower"),
    "worker_growth": Gate(_GROWTH, "bytes", 1, better="lower"),
    "worker_growth_str": Gate(f"{_GROWTH}, of a list of str", "bytes", better="lower"),
    "tar_ratio": Gate(f"{_TAR} reading and decoding", "x", better="lower"),
    "tar_read_ratio": Gate(f"{_TAR} reading alone", "x", better="lower"),
    "mmpretrain_photometric": Gate("as C13 with our photometric work on the CPU, 34 crops", "x"),
    "loader_28": Gate("as C1, 28 crops", "x"),
    "photometric_28": Gate("as C2, 28 crops", "x"),
    "workers_1_rate": Gate("our DataLoader, 1 worker, batches of 16", "images/s"),
    "workers_2_rate": Gate("our DataLoader, 2 workers, batches of 16", "images/s"),
    "workers_ratio": Gate("our DataLoader: 2 workers against 1", "x"),
    "operators": Gate(
        "operators a step outside the backbone, for any batch from 16 images on", "", better="lower"
    ),
    "gradients": Gate("float32 gradients of ResNet-50 and heads", "MB", better="lower"),
    "C7 backbone": Gate(f"{_STEP_FLOPS} the backbone alone", "x"),
    "step": Gate("whole training step, augmentation on the CPU", "ms/image", better="lower"),
}
for _crops in (28, 34):
    _CPU[f"FLOPs {_crops}"] = Gate(
        f"forward and backward of ResNet-50, {_crops} crops", "GFLOP/image", better="lower"
    )
    for _type in ("float32", "bf16"):
        _CPU[f"activations {_crops} {_type}"] = Gate(
            f"kept for backward, ResNet-50, {_crops} crops, {_type}", "MB/image", better="lower"
        )

_ACTIVATION_MB = 318
"""Of one image with 28 crops, derived from the layers; G10 allows 1.35 of it."""

_AGAINST_PLAIN = "images/s in crops of 224 px of equal FLOPs, against a plain ResNet"
_SHARE = "augmentation's share of a step"
_DIFFERENCE = "augmentation against the CPU's kernels, same crops and draws, 28 crops"
_GPU = {
    "G1": Gate(f"28 crops, eager: {_AGAINST_PLAIN}", "x", 0.90),
    "G1-34": Gate(f"34 crops, eager: {_AGAINST_PLAIN}", "x", 0.90),
    "G1-compiled": Gate(f"28 crops, compiled: {_AGAINST_PLAIN}", "x", 0.90),
    "G1-34-compiled": Gate(f"34 crops, compiled: {_AGAINST_PLAIN}", "x", 0.90),
    "G2": Gate("28 crops, synthetic batch, eager", "images/s", 550, 800),
    "G2-compiled": Gate("28 crops, synthetic batch, compiled", "images/s", 550, 800),
    "G6": Gate(f"{_SHARE}, 28 crops, eager", "", 0.10, better="lower"),
    "G6-compiled": Gate(f"{_SHARE}, 28 crops, compiled", "", 0.04, better="lower"),
    "C14": Gate(f"{_DIFFERENCE}, eager", "levels", 2, better="lower"),
    "C14-compiled": Gate(f"{_DIFFERENCE}, compiled", "levels", 2, better="lower"),
    "G7": Gate("28 crops, eager, from JPEG with our loader, against synthetic", "x", 0.95),
    "G9": Gate("the host waits for the GPU between log steps, 1 if so", "", 0, better="lower"),
    "G10": Gate(
        "peak memory per image, weights and all, 28 crops, eager",
        "MB",
        1.35 * _ACTIVATION_MB,
        better="lower",
    ),
    "loader": Gate("28 crops: loader alone", "images/s"),
    "loader_cores": Gate("28 crops: cores whose loader keeps up with the synthetic rate", "cores"),
}

GATES: dict[str, Gate] = {**_CPU, **_GPU}
"""Id -> what it is; ids stay, since other tools read results/*.csv by them."""
