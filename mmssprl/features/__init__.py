"""Frozen features, extracted once: probed by labels, kept in files, looked up by likeness."""

from .average_precision import MultiLabelMAP, mean_average_precision
from .embeddings import Embeddings
from .folder import embed
from .formats import read_embeddings
from .frozen_backbone import FrozenBackbone, image_transform, load_frozen_backbone
from .linear_classifier import fit_linear_probe
from .linear_probe import linear_probe, linear_probes
from .nearest_neighbors import knn_scores
from .probe_data import find_probe_data
from .probe_hook import ProbeHook

__all__ = [
    "Embeddings",
    "FrozenBackbone",
    "MultiLabelMAP",
    "ProbeHook",
    "embed",
    "find_probe_data",
    "fit_linear_probe",
    "image_transform",
    "knn_scores",
    "linear_probe",
    "linear_probes",
    "load_frozen_backbone",
    "mean_average_precision",
    "read_embeddings",
]
