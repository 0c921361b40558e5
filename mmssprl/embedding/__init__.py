"""Features of whole images and of the pyramid's cells: computed once, kept, and compared."""

from .embeddings import Embeddings
from .folder import embed, embed_to_file
from .formats import FORMATS, check_format, read_embeddings
from .neighbors import Neighbor, find_neighbors, nearest

__all__ = [
    "FORMATS",
    "Embeddings",
    "Neighbor",
    "check_format",
    "embed",
    "embed_to_file",
    "find_neighbors",
    "nearest",
    "read_embeddings",
]
