"""Read and set the hooks of a config, its ``custom_hooks``, by their names without a scope."""

from collections.abc import Mapping, Sequence
from typing import Any

from mmengine.config import Config


def hooks_of(cfg: Config) -> Sequence[Any]:
    """Return the configs of all hooks, in their order."""
    found: Sequence[Any] = cfg.get("custom_hooks") or []
    return found


def is_named(part: Any, name: str) -> bool:
    """Whether a part is of this class, as ``Name`` or ``scope.Name``; False for a wrong value."""
    kind = part.get("type") if isinstance(part, Mapping) else None
    full_name = kind if isinstance(kind, str) else getattr(kind, "__name__", "")
    return full_name.rpartition(".")[2] == name


def find_hook(cfg: Config, name: str) -> Any:
    """Return the config of the first hook of this class, or None."""
    return next((hook for hook in hooks_of(cfg) if is_named(hook, name)), None)


def hook_value(cfg: Config, name: str, field: str) -> Any:
    """Return a field of the first hook of this class; None without such a hook or field."""
    hook = find_hook(cfg, name)
    return None if hook is None else hook.get(field)


def hook_key(cfg: Config, name: str, field: str) -> str | None:
    """Return the dotted key of a field of the first hook of this class; None without it."""
    for index, hook in enumerate(hooks_of(cfg)):
        if is_named(hook, name):
            return f"custom_hooks.{index}.{field}"
    return None


def add_hook(cfg: Config, name: str, **fields: Any) -> None:
    """Append a hook."""
    cfg.custom_hooks = [*hooks_of(cfg), {"type": name, **fields}]


def remove_hooks(cfg: Config, *names: str) -> None:
    """Remove all hooks of these classes."""
    kept = hooks_of(cfg)
    for name in names:
        kept = [hook for hook in kept if not is_named(hook, name)]
    if hooks_of(cfg):
        cfg.custom_hooks = kept
