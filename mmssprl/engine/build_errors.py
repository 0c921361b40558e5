"""What Python says about a config's fields while a run is built, as one line for the user."""

import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from mmengine.config import Config

from ..errors import UserTypeError, UserValueError
from .overrides import find_fields

_UNEXPECTED = re.compile(r"(.+?)(?:\.__init__)?\(\) got an unexpected keyword argument '(\w+)'")
_UNREGISTERED = re.compile(r"['\"]?(\S+) is not in the (\S+) registry")
_BUILDERS = ("build", "from_cfg")


@contextmanager
def explain_build_errors(cfg: Config) -> Iterator[None]:
    """Name the key of the config where a part of a run refuses one of its fields.

    Other errors pass: a wrong call inside the code of a part is a bug and keeps its traceback.

    Raises:
        TypeError: A field that its class does not have.
        ValueError: A ``type`` that is not registered.
    """
    try:
        yield
    except (TypeError, KeyError) as error:
        frames = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        unexpected = _UNEXPECTED.match(str(error))
        unregistered = _UNREGISTERED.match(str(error))
        is_built = any(name.startswith(_BUILDERS) for name in frames)
        if is_built and isinstance(error, TypeError) and unexpected:
            owner, name = unexpected.groups()
            keys = find_fields(cfg, name)
            if keys:
                raise UserTypeError(
                    f"{owner} has no field {name!r}, but the config sets {' or '.join(keys)}; "
                    "correct its spelling, or remove it."
                ) from error
        if is_built and isinstance(error, KeyError) and unregistered:
            name, registry = unregistered.groups()
            raise UserValueError(
                f"type={name!r} is not in the registry {registry}; correct its spelling, or name "
                "the module that registers it in custom_imports."
            ) from error
        raise
