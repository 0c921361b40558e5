"""``--cfg-options``: values that replace a config's, refused where they would change nothing.

A config file is Python that has run once it is read. Names such as ``max_epochs`` that helped to
write it lie beside the keys of a run, and nobody looks at them again.
"""

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from mmengine.config import Config
from mmengine.registry import Registry
from mmengine.runner import Runner

from .. import registry as registries
from ..errors import UserValueError
from ..registry import RUNNERS, class_of
from .class_fields import SIMILAR, fields_of, nearest
from .config_checks import READ_BY_NAME
from .pretrain_checks import hand_on_layout
from .reading import refuse

_READ_BY_RUNNER = (
    *("model_wrapper_cfg", "find_unused_parameters", "sync_bn", "compile", "runner_type"),
    *("activation_checkpointing", "efficient_conv_bn_eval"),
)
"""What mmengine's runner takes out of the config beside the arguments of its constructor."""
_ELSEWHERE = {
    "launcher": "the command line sets it; give --launcher",
    "custom_imports": "it is read with the file; write it there",
}
_CLOSED = ("model.train_cfg", "model.test_cfg")
"""The models of mmdet and mmseg read these the same way, but each model looks for other fields.
What the config has is then all that is known."""
_HOOKS = ("default_hooks", "custom_hooks")
_MAX_NAMED = 6
_OF_LOOP = re.compile(r"(train|val|test)_(dataloader|cfg|evaluator)")


def merge_options(cfg: Config, options: Mapping[str, Any], *, flag: str = "--cfg-options") -> None:
    """Replace values of a config, all of them or none; then the data follow the model's layout.

    Args:
        cfg: Changed in place.
        options: Values by dotted key; numbers are indices of lists.
        flag: What the user gave them by, for the message.

    Raises:
        ValueError: A key that no run reads (the message names those that hold its value), a field
            that is misspelt, or a path through a value that has no fields.
    """
    if any(".pipeline." in key for key in options):  # which may replace a part of its layout
        hand_on_layout(cfg)
    for key in options:
        name, _, rest = key.partition(".")
        if name not in used_keys(cfg):
            _refuse_unused(cfg, name, rest, flag)
        _check_path(cfg, key, options, flag)
    cfg.merge_from_dict(dict(options))
    hand_on_layout(cfg)


def check_spelling(cfg: Config) -> None:
    """Refuse names in a config file that are almost a key of a run.

    Other names are helpers, or read by a user's own code.

    Raises:
        ValueError: Names the key that was meant.
    """
    used = used_keys(cfg) | _ELSEWHERE.keys() | {"data_preprocessor"}
    for name in cfg.keys() - used:
        meant = nearest(name, used, SIMILAR)
        # A name such as val_evaluator_2 is a helper for its key.
        if meant and not name.startswith(f"{meant}_"):
            refuse(
                cfg,
                name,
                f"no run reads it; did you mean {meant!r}? Otherwise give a helper a name less "
                "similar.",
            )


def find_fields(cfg: Config, name: str) -> list[str]:
    """Return the dotted keys of a run that end in ``name``."""
    return [path for path, _ in walk_used(cfg) if path.rpartition(".")[2] == name]


def used_keys(cfg: Config) -> set[str]:
    """Return the names that a run reads at the top of a config."""
    kinds = [Runner]
    if cfg.get("runner_type"):
        kinds.append(class_of(cfg.runner_type, RUNNERS) or Runner)
    keys = {key for kind in kinds for key in inspect.signature(kind.__init__).parameters}
    keys |= {*_READ_BY_RUNNER, "weights", "save_every", "num_threads"}
    keys -= {"self", "cfg", *_ELSEWHERE}
    model = cfg.get("model")
    if isinstance(model, Mapping) and model.get("data_preprocessor"):
        keys.discard("data_preprocessor")  # the model's own wins
    return keys


def _refuse_unused(cfg: Config, name: str, rest: str, flag: str) -> NoReturn:
    if name in _ELSEWHERE:
        raise UserValueError(f"{flag} {name} changes nothing: {_ELSEWHERE[name]}.")
    places = _find_value(cfg, name) or find_fields(cfg, name)
    if not places:
        leaves = {path.rpartition(".")[2] for path, _ in walk_used(cfg)}
        meant = nearest(name, leaves | used_keys(cfg), SIMILAR)
        places = (find_fields(cfg, meant) or [meant]) if meant else []
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
    equal = [path for path, found in walk_used(cfg) if _holds(found, value)]
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


def walk_used(cfg: Config) -> Iterator[tuple[str, Any]]:
    """Yield every dotted key of what a run reads, with its value."""

    def walk(node: Any, path: str) -> Iterator[tuple[str, Any]]:
        yield path, node
        items = node.items() if isinstance(node, Mapping) else ()
        for key, child in enumerate(node) if isinstance(node, list) else items:
            yield from walk(child, f"{path}.{key}")

    for name in sorted(used_keys(cfg) & cfg.keys()):
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
    known = READ_BY_NAME.get(where.rpartition(".")[2], ())
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
    meant = nearest(part, fields, SIMILAR)
    if meant or known or is_hook or is_closed or names_no_type:
        choice = f"it has {', '.join(sorted(fields)) or 'no fields'}."
        remedy = f"did you mean {where}.{meant}?" if meant else choice
        raise UserValueError(
            f"{flag} {where}.{part} changes nothing, for {where} has no such field; {remedy}"
        )


def _parameters(kind: Any, cfg: Config) -> frozenset[str]:
    """Return the names of the fields of a registered type, none if it is unknown."""
    scope = cfg.get("default_scope") or "mmssprl"
    places = [place for place in vars(registries).values() if isinstance(place, Registry)]
    found = (fields_of(kind, place, scope) for place in places if kind is not None)
    return next((fields.names for fields in found if fields), frozenset())
