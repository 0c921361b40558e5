"""Features of a backbone: extracted once, probed by labels, kept in files, looked up, chosen by."""

from .backbone import FeatureBackbone, image_transform, load_backbone
from .dense_probe import DenseProbeResult
from .embedding import embed
from .embeddings import Embeddings, read_embeddings
from .linear_classifier import fit_linear_probe
from .linear_probe import ProbeResult, probe
from .measures import MultiLabelMAP, mean_average_precision
from .neighbor_search import Neighbor, knn_scores, neighbors
from .probe_data import find_probe_data
from .probe_hook import ProbeHook
from .selection import Selected, select
from .teacher_maps import TeacherHook

__all__ = [
    "DenseProbeResult",
    "Embeddings",
    "FeatureBackbone",
    "MultiLabelMAP",
    "Neighbor",
    "ProbeHook",
    "ProbeResult",
    "Selected",
    "TeacherHook",
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
    "select",
]
