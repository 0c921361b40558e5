"""``--cfg-options``: values that replace a config's, refused where they would change nothing.

A config file is Python that has run once it is read. Names such as ``max_epochs`` that helped to
write it lie beside the keys of a run, and nobody looks at them again.
"""

import inspect
import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, NoReturn

from mmengine.config import Config
from mmengine.registry import RUNNERS, Registry
from mmengine.runner import Runner

from .. import registry as registries
from ..errors import UserValueError
from ..registry import class_of

_READ_BY_RUNNER = (
    *("model_wrapper_cfg", "find_unused_parameters", "sync_bn", "compile", "runner_type"),
    *("activation_checkpointing", "efficient_conv_bn_eval"),
)
"""What mmengine's runner takes out of the config beside the arguments of its constructor."""
_ELSEWHERE = {
    "launcher": "the command line sets it; give --launcher",
    "custom_imports": "it is read with the file; write it there",
}
_FIELDS = {
    "env_cfg": ("cudnn_benchmark", "mp_cfg", "dist_cfg", "resource_limit"),
    "mp_cfg": ("mp_start_method", "opencv_num_threads"),
    "dist_cfg": ("backend", "timeout"),
    "auto_scale_lr": ("enable", "base_batch_size"),
    "filter_cfg": ("filter_empty_gt", "min_size"),
    "paramwise_cfg": (
        *("custom_keys", "bias_lr_mult", "bias_decay_mult", "norm_decay_mult", "flat_decay_mult"),
        *("dwconv_decay_mult", "dcn_offset_lr_mult", "bypass_duplicate"),
    ),
}
"""All fields of the dicts whose readers look for these and ignore every other."""
_CLOSED = ("model.train_cfg", "model.test_cfg")
"""The models of mmdet and mmseg read these the same way, but each model looks for other fields.
What the config has is then all that is known."""
_HOOKS = ("default_hooks", "custom_hooks")
_SIMILAR = 0.85
"""From this ratio of difflib on a field counts as misspelt: 'intervall' and 'interval' have 0.94,
and no two fields that are used here have as much."""
_SIMILAR_KEY = 0.88
"""The same for keys of a run. It is higher because 'val_evaluator_abs', a helper in one of mmdet's
configs, has a ratio of 0.867 to a key."""
_MAX_NAMED = 6
_OF_LOOP = re.compile(r"(train|val|test)_(dataloader|cfg|evaluator)")


def merge_options(cfg: Config, options: Mapping[str, Any], *, flag: str = "--cfg-options") -> None:
    """Replace values of a config, all of them or none.

    Args:
        cfg: Changed in place.
        options: Values by dotted key; numbers are indices of lists.
        flag: What the user gave them by, for the message.

    Raises:
        ValueError: A key that no run reads (the message names those that hold its value), a field
            that is misspelt, or a path through a value that has no fields.
    """
    for key in options:
        name, _, rest = key.partition(".")
        if name not in _used_keys(cfg):
            _refuse_unused(cfg, name, rest, flag)
        _check_path(cfg, key, options, flag)
    cfg.merge_from_dict(dict(options))


def check_spelling(cfg: Config) -> None:
    """Refuse names in a config file that are almost a key of a run.

    Other names are helpers, or read by a user's own code.

    Raises:
        ValueError: Names the key that was meant.
    """
    used = _used_keys(cfg) | _ELSEWHERE.keys() | {"data_preprocessor"}
    for name in cfg.keys() - used:
        meant = get_close_matches(name, used, 1, _SIMILAR_KEY)
        if meant:
            raise UserValueError(
                f"{cfg.filename} sets {name!r}, which no run reads, perhaps for {meant[0]!r}; "
                "correct it, or give a helper a name less similar."
            )


def find_fields(cfg: Config, name: str) -> list[str]:
    """Return the dotted keys of a run that end in ``name``."""
    return [path for path, _ in _walk_used(cfg) if path.rpartition(".")[2] == name]


def _used_keys(cfg: Config) -> set[str]:
    kinds = [Runner]
    if cfg.get("runner_type"):
        kinds.append(RUNNERS.get(cfg.runner_type) or Runner)
    keys = {key for kind in kinds for key in inspect.signature(kind.__init__).parameters}
    keys |= {*_READ_BY_RUNNER, "weights"}
    keys -= {"self", "cfg", *_ELSEWHERE}
    if (cfg.get("model") or {}).get("data_preprocessor"):
        keys.discard("data_preprocessor")  # the model's own wins
    return keys


def _refuse_unused(cfg: Config, name: str, rest: str, flag: str) -> NoReturn:
    if name in _ELSEWHERE:
        raise UserValueError(f"{flag} {name} changes nothing: {_ELSEWHERE[name]}.")
    places = _find_value(cfg, name) or find_fields(cfg, name)
    if not places:
        leaves = {path.rpartition(".")[2] for path, _ in _walk_used(cfg)}
        meant = get_close_matches(name, sorted(leaves | _used_keys(cfg)), 1, _SIMILAR)
        places = (find_fields(cfg, meant[0]) or meant) if meant else []
    keys = [f"{place}.{rest}" if rest else place for place in places[:_MAX_NAMED]]
    keys += ["..."] if len(places) > _MAX_NAMED else []
    remedy = f"set {', '.join(keys)} instead" if keys else "see the config for the key that does"
    helper = "it only helped to write the config" if name in cfg else "the config has no such key"
    raise UserValueError(
        f"{flag} {name} changes nothing, for no run reads {name!r} ({helper}); {remedy}."
    )


def _find_value(cfg: Config, name: str) -> list[str]:
    """Return the dotted keys that hold the value of a helper, those of a similar name if any."""
    value = cfg.get(name)
    if value is None or isinstance(value, bool) or value in ("", [], {}):
        return []
    equal = [path for path, found in _walk_used(cfg) if _holds(found, value)]
    words = set(name.split("_"))
    similar = [
        path for path in equal if words & set(path.rstrip(".0123456789").split(".")[-1].split("_"))
    ]
    return similar or equal


def _holds(found: Any, value: Any) -> bool:
    if isinstance(found, str) and isinstance(value, str):
        return found == value or found.startswith(f"{value}/")
    if isinstance(found, tuple) and found and not isinstance(value, tuple):
        return all(type(item) is type(value) and item == value for item in found)
    return type(found) is type(value) and found == value


def _walk_used(cfg: Config) -> Iterator[tuple[str, Any]]:
    """Yield every dotted key of what a run reads, with its value."""

    def walk(node: Any, path: str) -> Iterator[tuple[str, Any]]:
        yield path, node
        items = node.items() if isinstance(node, Mapping) else ()
        for key, child in enumerate(node) if isinstance(node, list) else items:
            yield from walk(child, f"{path}.{key}")

    for name in sorted(_used_keys(cfg) & cfg.keys()):
        yield from walk(cfg[name], name)


def _check_path(cfg: Config, key: str, options: Mapping[str, Any], flag: str) -> None:
    """Follow a dotted key as far as the config has it, and look at the first new field."""
    node: Any = cfg
    parts = key.split(".")
    if cfg.get(parts[0]) is None and _OF_LOOP.fullmatch(parts[0]):
        raise UserValueError(
            f"{flag} {key}: the config has no {parts[0]}, and a part of one makes none; "
            "give a config with it."
        )
    for i, part in enumerate(parts):
        where = ".".join(parts[:i])
        if isinstance(node, Mapping) or node is cfg:
            if part not in node:
                if where:
                    _check_new(cfg, node, where, part, options, flag)
                return
            node = node[part]
        elif isinstance(node, list) and part.isdigit() and int(part) < len(node):
            node = node[int(part)]
        else:
            what = f"a list of {len(node)}" if isinstance(node, list) else repr(node)
            raise UserValueError(
                f"{flag} {key}: {where} is {what} and has no {part!r}; set {where} whole, "
                "or correct the key."
            )


def _check_new(
    cfg: Config, parent: Mapping, where: str, part: str, options: Mapping[str, Any], flag: str
) -> None:
    parameters = _parameters(parent.get("type"), cfg)
    if part == "type" or part.startswith("_") or part in parameters:
        return
    known = _FIELDS.get(where.rpartition(".")[2], ())
    top, _, inside = where.partition(".")
    is_hook = top in _HOOKS and bool(inside) and "type" in parent
    is_closed = where.startswith(_CLOSED) and "type" not in parent
    names_no_type = (
        where == "default_hooks"
        and "type" not in (options.get(f"{where}.{part}") or {})
        and f"{where}.{part}.type" not in options
    )
    if part in known or (is_hook and part == "priority"):
        return
    fields = {*parent, *parameters, *known} - {"type"}
    meant = get_close_matches(part, sorted(fields), 1, _SIMILAR)
    if meant or known or is_hook or is_closed or names_no_type:
        choice = f"it has {', '.join(sorted(fields)) or 'no fields'}."
        remedy = f"did you mean {where}.{meant[0]}?" if meant else choice
        raise UserValueError(
            f"{flag} {where}.{part} changes nothing, for {where} has no such field; {remedy}"
        )


def _parameters(kind: Any, cfg: Config) -> set[str]:
    """Return the names of the arguments that a registered class takes, none if it is unknown."""
    scope = cfg.get("default_scope", "mmssprl")
    places = [place for place in vars(registries).values() if isinstance(place, Registry)]
    found = next((found for place in places if (found := class_of(kind, place, scope))), None)
    names: set[str] = set()
    for base in inspect.getmro(found) if found else ():
        if "__init__" in vars(base) and base is not object:
            parameters = inspect.signature(vars(base)["__init__"]).parameters.values()
            names |= {
                p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
            }
            if not any(p.kind == p.VAR_KEYWORD for p in parameters):
                break
    return names - {"self"}
