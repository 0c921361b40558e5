"""Linear probes of frozen features, and the metric of multi-label classification."""

from .average_precision import mean_average_precision
from .features import LabelledImages, extract_features
from .linear_classifier import LinearProbe, fit_linear_probe
from .linear_probe import linear_probe
from .multi_label_metric import MultiLabelMAP
from .probe_data import LabelledSplit, ProbeData, find_probe_data

__all__ = [
    "LabelledImages",
    "LabelledSplit",
    "LinearProbe",
    "MultiLabelMAP",
    "ProbeData",
    "extract_features",
    "find_probe_data",
    "fit_linear_probe",
    "linear_probe",
    "mean_average_precision",
]
