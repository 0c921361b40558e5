"""Find the shipped configs and tools: in the package's ``.mim`` folder or in the checkout."""

from pathlib import Path

from ..console.paths import check_path
from ..errors import UserFileNotFoundError

_PACKAGE = Path(__file__).resolve().parents[1]
_SUFFIXES = (".py", ".json", ".yaml", ".yml")
SIZES = ("scenes", "photos", "photos-gpu")
"""Sizes of ``at_size``."""


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
    """Find a config that a user names: their file, or a shipped one as ``configs/...``."""
    path = Path(config)
    found = None if path.is_file() or path.parts[:1] != ("configs",) else _find(path)
    what = "a config file, such as configs/ssprl/ssprl_resnet18_scenes.py"
    return check_path(found or config, "config", file=what, suffixes=_SUFFIXES)


def check_config(config: str, name: str) -> None:
    """Raise FileNotFoundError or ValueError if there is no such config file."""
    config_file(config)


def _find(name: str | Path) -> Path | None:
    # An editable install links only tools into .mim; configs are in the checkout.
    places = (_PACKAGE / ".mim" / name, _PACKAGE.parent / name)
    return next((place for place in places if place.exists()), None)
