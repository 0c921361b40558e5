"""Features of a backbone: extracted once, probed by labels, kept in files, looked up."""

from .average_precision import MultiLabelMAP, mean_average_precision
from .backbone import FeatureBackbone, image_transform, load_backbone
from .embedding import embed
from .embeddings import Embeddings, read_embeddings
from .linear_classifier import fit_linear_probe
from .linear_probe import ProbeResult, probe
from .nearest_neighbors import knn_scores
from .neighbor_search import Neighbor, neighbors
from .probe_data import find_probe_data
from .probe_hook import ProbeHook

__all__ = [
    "Embeddings",
    "FeatureBackbone",
    "MultiLabelMAP",
    "Neighbor",
    "ProbeHook",
    "ProbeResult",
    "embed",
    "find_probe_data",
    "fit_linear_probe",
    "image_transform",
    "knn_scores",
    "load_backbone",
    "mean_average_precision",
    "neighbors",
    "probe",
    "read_embeddings",
]
