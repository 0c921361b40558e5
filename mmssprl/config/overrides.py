"""``--cfg-options``: replace values of a config; refuse keys that would change nothing.

Helpers such as ``max_epochs`` stay in a config that is read, but have no effect any more.
"""

import copy
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from mmengine.config import Config

from ..errors import UserValueError
from .keys import ELSEWHERE, used_keys, walk_used
from .layouts import hand_on_layout
from .reading import one_line, refuse

_HAS_BASE = re.compile(r"^_base_\s*=|\bread_base\(\)", re.MULTILINE)
_MAX_NAMED = 6
_SPLITS = ("train", "val", "test")
_SIMILAR = 0.85
"""Lowest difflib ratio of a misspelt name; 'intervall' and 'interval' have 0.94."""


def merge_options(cfg: Config, options: Mapping[str, Any], *, flag: str = "--cfg-options") -> None:
    """Replace all values of ``cfg`` or none; then copy the model's layout to the data.

    Keys are dotted; numbers in them are indices of lists. Messages name the user's ``flag``.

    Raises:
        ValueError: A key that no run reads (the message names one that works), or a path through
            a value without fields.
    """
    if any(".pipeline." in key for key in options):  # it may replace a part of its layout
        hand_on_layout(cfg)

    for key in options:
        if key.partition(".")[0] not in used_keys(cfg):
            _refuse_unused(cfg, key, flag)
        try:
            copy.deepcopy(cfg).merge_from_dict({key: options[key]})
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise UserValueError(
                f"{flag} {key}: {options[key]!r:.80} does not fit the config ({one_line(error)}); "
                "correct the key, or give a value of the same kind."
            ) from error

    cfg.merge_from_dict(dict(options))
    hand_on_layout(cfg)


def check_spelling(cfg: Config) -> None:
    """Raise ValueError for a name in a config file that is almost a key of a run.

    Other names are helpers, or read by a user's own code. A class is one that the file imports.
    """
    used = used_keys(cfg) | ELSEWHERE | {"data_preprocessor"}
    for name in cfg.keys() - used:
        if isinstance(cfg[name], type):
            continue
        meant = _nearest(name, used)
        # A name such as val_evaluator_2 is a helper for its key.
        if meant and not name.startswith(f"{meant}_"):
            reason = f"no run reads it; did you mean {meant!r}? Otherwise rename the helper."
            refuse(cfg, name, reason)


def unused_helpers(cfg: Config) -> list[str]:
    """Return a line for each helper of a ``_base_`` that the file sets again to no effect.

    The base has already set its own key by it: ``max_epochs = 50`` in a file leaves
    ``train_cfg.max_epochs``.
    """
    text = Path(cfg.filename).read_text(encoding="utf-8")
    if not _HAS_BASE.search(text):
        return []

    places: dict[str, dict[str, Any]] = {}
    for path, value in walk_used(cfg):
        above, _, last = path.rpartition(".")
        if above:
            places.setdefault(last, {})[path] = value

    lines = []
    for name in sorted(cfg.keys() - used_keys(cfg)):
        found = places.get(name, {})
        split = name.removesuffix("_pipeline")
        if split in _SPLITS:
            pipelines = places.get("pipeline", {}).items()
            found = {k: v for k, v in pipelines if k.startswith(f"{split}_dataloader.")}
        is_set = re.search(rf"^{re.escape(name)}\s*=", text, re.MULTILINE)
        is_used = len(re.findall(rf"\b{re.escape(name)}\b", text)) > 1
        if is_set and found and not is_used and cfg[name] not in found.values():
            path, value = next(iter(found.items()))
            is_short = isinstance(value, str | int | float)
            lines.append(
                f"{cfg.filename}: {name} seems to change nothing, because a _base_ has set {path}"
                f"{f'={value!r}' if is_short else ''} already; set that key."
            )
    return lines


def _refuse_unused(cfg: Config, key: str, flag: str) -> NoReturn:
    """Raise ValueError for an unused key, with the similar keys that a run reads."""
    name, _, rest = key.partition(".")
    places: dict[str, list[str]] = {used: [used] for used in used_keys(cfg)}
    for path, _ in walk_used(cfg):
        if "." in path:
            places.setdefault(path.rpartition(".")[2], []).append(path)

    # A helper such as base_lr is the value of lr.
    meant = (name, name.rpartition("_")[2], _nearest(name, places))
    found = next((places[each] for each in meant if each in places), [])
    keys = ", ".join(f"{place}.{rest}" if rest else place for place in found[:_MAX_NAMED])
    remedy = f"set {keys} instead" if keys else "look up the right key in the config"
    raise UserValueError(f"{flag} {name} changes nothing, as no run reads {name!r}; {remedy}.")


def _nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the closest name, None if all are too different."""
    return next(iter(get_close_matches(name, sorted(names), 1, _SIMILAR)), None)
