"""Fixed subsets of a data set, for semi-supervised training."""

import hashlib
from collections.abc import Sequence

from ..errors import UserValueError


def choose_subset(ids: Sequence[int], fraction: float, seed: int = 0) -> list[int]:
    """Choose a fraction in (0, 1] of images, at least one, the same on every machine.

    Images are ranked by the SHA-256 of "seed:id", and the first are returned, sorted. The choice
    does not depend on the order of ``ids``, and a smaller fraction is part of each larger one of
    the same seed. Differs from the paper: its 1 % and 10 % of COCO train2014 are other images,
    listed in files without a licence.
    """
    if not 0 < fraction <= 1 or not ids:
        raise UserValueError(
            f"fraction must be in (0, 1] of at least one image, but got {fraction} of {len(ids)}."
        )
    ranked = sorted(ids, key=lambda number: rank(number, seed))
    return sorted(ranked[: max(1, round(fraction * len(ids)))])


def rank(number: int, seed: int) -> bytes:
    """Return what ``choose_subset`` sorts images by."""
    return hashlib.sha256(f"{seed}:{number}".encode()).digest()
