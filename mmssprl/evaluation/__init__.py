"""Linear probes of frozen features."""

from .average_precision import mean_average_precision
from .backbone_loading import find_config, load_backbone
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
    "find_config",
    "find_probe_data",
    "fit_linear_probe",
    "linear_probe",
    "load_backbone",
    "mean_average_precision",
]
