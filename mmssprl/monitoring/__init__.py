"""Is it learning? Troubles of a training by name, and curves of healthy ones; without labels."""

from .history import Band, Record, band_of, read_scalars, read_validations
from .troubles import HEALTHY, TROUBLES, Diagnosis, Trouble, diagnose, find_troubles

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
    "read_validations",
]
