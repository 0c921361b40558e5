"""Where the configs and tools are: in the package's ``.mim`` folder, or in the checkout."""

from pathlib import Path

from ..console.dropped import answer
from ..errors import UserFileNotFoundError

_PACKAGE = Path(__file__).resolve().parents[1]
SIZES = ("scenes", "photos", "photos-gpu")
"""The small forms of the methods' configs, see ``at_size``."""


def shipped(name: str | Path) -> Path:
    """Find a shipped file by its path below the repository's root."""
    found = _find(name)
    if found is None:
        raise UserFileNotFoundError(
            f"{name} is neither in {_PACKAGE / '.mim'} nor in {_PACKAGE.parent}; "
            "install mmssprl again, from a wheel or with `pip install -e .`."
        )
    return found


def config_file(config: str | Path) -> Path:
    """Find a config that a user names: a file of their own, or a shipped one as ``configs/...``."""
    path = Path(config)
    found = path if path.is_file() or path.parts[:1] != ("configs",) else _find(path)
    if found is None or not found.is_file():
        dropped = answer(f"config {path.name}")
        if dropped:
            raise UserFileNotFoundError(dropped)
        raise UserFileNotFoundError(
            f"config must be a config file, but there is none at {config}; the shipped ones are in "
            "configs/, for example configs/ssprl/ssprl_resnet18_scenes.py."
        )
    return found


def _find(name: str | Path) -> Path | None:
    # An editable install links tools into .mim, but finds configs in its checkout.
    places = (_PACKAGE / ".mim" / name, _PACKAGE.parent / name)
    return next((place for place in places if place.exists()), None)
