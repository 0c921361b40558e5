"""The values of ``cfg_options``: tried before the recipe is told, and named as they were given."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from mmengine.config import Config
from mmengine.optim import build_optim_wrapper
from mmengine.registry import DefaultScope

from ..config.build_errors import explain_build_errors
from ..config.overrides import merge_options
from ..config.run_checks import check_config
from ..errors import UserError
from ..registry import MODELS
from ..weights.backbone import quiet

_PLACED = re.compile(r".+?\.py: (?:([\w.]+): )?(.+)", re.DOTALL)
_LOG = re.compile(r" \(traceback in [^)]+\)")


def set_values(cfg: Config, options: Mapping[str, Any]) -> None:
    """Replace values of a recipe's config, and build its model and optimizer once.

    Args:
        cfg: Changed in place.
        options: Values by dotted key.

    Raises:
        FileNotFoundError, OSError, RuntimeError, TypeError, ValueError: As ``merge_options``,
            ``check_config`` and ``explain_build_errors``, by the option.
    """
    merge_options(cfg, options, flag="cfg_options")
    scope = DefaultScope.overwrite_default_scope(cfg.default_scope)
    with told_by_set(options), explain_build_errors(cfg), scope, quiet():
        check_config(cfg, ("train",))
        build_optim_wrapper(MODELS.build(cfg.model), cfg.optim_wrapper.copy())


@contextmanager
def told_by_set(options: Mapping[str, Any]) -> Iterator[None]:
    """Let errors that name a file and a key of a recipe's config name the options instead.

    The user has not written that file. What is raised is of the same class.
    """
    try:
        yield
    except UserError as error:
        placed = _PLACED.fullmatch(str(error))
        if placed is None:
            raise
        key, reason = placed[1] or "", _LOG.sub("", placed[2])
        values = " ".join(f"{each}={value}" for each, value in options.items())
        if any(f"{each}.".startswith(f"{key}.") for each in options):
            key = ""  # which an option names already
        raise type(error)(": ".join(filter(None, (values, key, reason)))) from error
