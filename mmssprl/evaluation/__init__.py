"""Linear probes of frozen features, and the metric of multi-label classification."""

from .average_precision import mean_average_precision
from .features import LabelledImages, extract_features
from .frozen_backbone import FrozenBackbone, image_transform, load_frozen_backbone
from .linear_classifier import LinearProbe, fit_linear_probe
from .linear_probe import linear_probe, linear_probes
from .multi_label_metric import MultiLabelMAP
from .nearest_neighbors import knn_scores
from .probe_data import LabelledSplit, ProbeData, find_probe_data
from .probe_hook import ProbeHook

__all__ = [
    "FrozenBackbone",
    "LabelledImages",
    "LabelledSplit",
    "LinearProbe",
    "MultiLabelMAP",
    "ProbeData",
    "ProbeHook",
    "extract_features",
    "find_probe_data",
    "fit_linear_probe",
    "image_transform",
    "knn_scores",
    "linear_probe",
    "linear_probes",
    "load_frozen_backbone",
    "mean_average_precision",
]
