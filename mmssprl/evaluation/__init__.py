"""Linear probes of frozen features."""

from .average_precision import mean_average_precision
from .features import LabelledImages, extract_features
from .linear_classifier import LinearProbe, fit_linear_probe
from .linear_probe import linear_probe
from .probe_data import LabelledSplit, ProbeData, find_probe_data

__all__ = [
    "LabelledImages",
    "LabelledSplit",
    "LinearProbe",
    "ProbeData",
    "extract_features",
    "find_probe_data",
    "fit_linear_probe",
    "linear_probe",
    "mean_average_precision",
]
