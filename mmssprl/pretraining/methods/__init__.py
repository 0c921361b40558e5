"""The methods of ``pretrain``; a new one is an entry in ``METHODS``."""

from difflib import get_close_matches

from ...errors import UserValueError
from .byol import BYOL
from .contrast import DENSECL, MOCO_V2
from .method import Additions, Method, Row, Setting
from .prototypes import SSPRL, SWAV, SWAV_SMALL, VARIANTS

__all__ = ["DEFAULT", "METHODS", "Additions", "Method", "Row", "Setting", "find_method"]

METHODS = {method.key: method for method in (SSPRL, SWAV, SWAV_SMALL, MOCO_V2, BYOL, DENSECL)}
DEFAULT = SSPRL.key
"""What ``pretrain`` trains without ``--method``."""
_SIMILAR = 0.5


def find_method(name: str = DEFAULT, variant: str | None = None) -> Method:
    """Return the method of a name.

    Args:
        name: Key of ``METHODS``.
        variant: Form of SS-PRL, key of ``VARIANTS``; None takes the default one.

    Raises:
        ValueError: No such method, or a variant of a method that has none.
    """
    if name not in METHODS:
        similar = get_close_matches(name.lower(), METHODS, 1, _SIMILAR)
        meant = f"; did you mean {similar[0]}?" if similar else "."
        raise UserValueError(f"method must be one of {', '.join(METHODS)}, but got {name!r}{meant}")
    if variant is None:
        return METHODS[name]
    if name != SSPRL.key:
        raise UserValueError(
            f"variant is a form of {SSPRL.key}, but got {variant!r} for {name}; leave it out."
        )
    if variant not in VARIANTS:
        raise UserValueError(f"variant must be one of {', '.join(VARIANTS)}, but got {variant!r}.")
    return VARIANTS[variant]
