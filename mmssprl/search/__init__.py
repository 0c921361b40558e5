"""Save features in files, find nearest images, and select images by their features."""

from .embeddings import Embeddings, embed, read_embeddings
from .neighbor_search import Neighbor, neighbors
from .selection import Selected, select

__all__ = ["Embeddings", "Neighbor", "Selected", "embed", "neighbors", "read_embeddings", "select"]
