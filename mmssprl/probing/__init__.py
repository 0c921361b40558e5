"""Score the features of a backbone by linear classifiers of images and of their regions."""

from .data import find_probe_data
from .dense import DenseProbeResult
from .hook import ProbeHook
from .linear import ProbeResult, probe
from .linear_classifier import fit_linear_probe
from .measures import MultiLabelMAP, mean_average_precision

__all__ = [
    "DenseProbeResult",
    "MultiLabelMAP",
    "ProbeHook",
    "ProbeResult",
    "find_probe_data",
    "fit_linear_probe",
    "mean_average_precision",
    "probe",
]
