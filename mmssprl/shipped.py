"""Where the configs and tools are: in the package's ``.mim`` folder, or in the checkout."""

from pathlib import Path

from .errors import UserFileNotFoundError

_PACKAGE = Path(__file__).resolve().parent


def shipped(name: str) -> Path:
    """Find a shipped file.

    Args:
        name: Path below the repository's root, such as ``configs/ssprl/NAME.py``.

    Returns:
        The file in the installed package's ``.mim`` folder, or else in the checkout.

    Raises:
        FileNotFoundError: It is in neither place.
    """
    places = [_PACKAGE / ".mim" / name, _PACKAGE.parent / name]
    for place in places:
        if place.exists():
            return place
    raise UserFileNotFoundError(
        f"{name} is neither in {places[0].parent} nor in {places[1].parent}; "
        "install mmssprl again, from a wheel or with `pip install -e .`."
    )
