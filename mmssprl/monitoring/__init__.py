"""Is it learning? Troubles of a training by name, and curves of healthy ones; without labels."""

from .bands import Band, band_of
from .diagnosis import HEALTHY, Diagnosis, diagnose
from .history import Record, read_scalars
from .troubles import TROUBLES, Trouble, find_troubles

__all__ = [
    "HEALTHY",
    "TROUBLES",
    "Band",
    "Diagnosis",
    "Record",
    "Trouble",
    "band_of",
    "diagnose",
    "find_troubles",
    "read_scalars",
]
