"""The config keys that a run reads."""

import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mmengine.config import Config
from mmengine.runner import Runner

from ..registry import RUNNERS, class_of
from .hooks import is_named

_READ_BY_RUNNER = {
    "model_wrapper_cfg",
    "find_unused_parameters",
    "sync_bn",
    "compile",
    "runner_type",
    "activation_checkpointing",
    "efficient_conv_bn_eval",
}
"""Keys that mmengine's runner reads besides the arguments of its constructor."""
ELSEWHERE = {"launcher", "custom_imports"}
"""Arguments of the runner that are set by the command line or the file, not as a key."""


def used_keys(cfg: Config) -> set[str]:
    """Return the top-level keys that a run reads."""
    keys = {"weights", "save_every", "num_threads", "num_gpus"} | _READ_BY_RUNNER
    kinds = [Runner]
    if cfg.get("runner_type"):
        kinds.append(class_of(cfg.runner_type, RUNNERS) or Runner)
    for kind in kinds:
        keys.update(inspect.signature(kind.__init__).parameters)
    keys -= {"self", "cfg", *ELSEWHERE}

    model = cfg.get("model")
    if isinstance(model, Mapping) and model.get("data_preprocessor"):
        keys.discard("data_preprocessor")  # the model's own wins
    return keys


def walk_used(cfg: Config) -> Iterator[tuple[str, Any]]:
    """Yield every dotted key that a run reads, with its value."""

    def walk(node: Any, path: str) -> Iterator[tuple[str, Any]]:
        yield path, node
        children: Iterable[tuple[Any, Any]] = ()
        if isinstance(node, Mapping):
            children = node.items()
        elif isinstance(node, list):
            children = enumerate(node)
        for key, child in children:
            yield from walk(child, f"{path}.{key}")

    for name in sorted(used_keys(cfg) & cfg.keys()):
        yield from walk(cfg[name], name)


def key_of_start(cfg: Config) -> str:
    """Return the key by which mmengine loads weights into a model or its backbone, or ""."""
    if cfg.get("load_from"):
        return "load_from"
    for name, part in (("model", cfg.model), ("model.backbone", cfg.model.get("backbone") or {})):
        if is_named(part.get("init_cfg") or {}, "Pretrained"):
            return f"{name}.init_cfg"
    return ""
