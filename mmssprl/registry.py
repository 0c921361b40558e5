"""Registries of mmssprl, children of mmpretrain's; mmengine finds them by the scope ``mmssprl``.

One child for every registry that a runner searches, so that a config with
``default_scope = 'mmssprl'`` finds mmssprl's, mmpretrain's and mmengine's types by bare names.
Configs of other scopes, such as mmdet's, use ``mmssprl.X``.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from ._dependencies import check_dependencies

check_dependencies()  # reports missing packages before an import fails

from mmengine.registry import FUNCTIONS as ROOT_FUNCTIONS  # noqa: E402
from mmengine.registry import Registry  # noqa: E402
from mmpretrain import registry as parents  # noqa: E402

from .console.quiet import import_quietly  # noqa: E402

# Every lookup in a registry below imports it; here its output is dropped.
import_quietly("mmpretrain.datasets")


def _noting(build: Callable) -> Callable:
    """Set ``built_from`` of an error to the config of the innermost part that failed."""

    @wraps(build)
    def noting(cfg: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return build(cfg, *args, **kwargs)
        except Exception as error:
            if not hasattr(error, "built_from"):
                error.built_from = cfg  # type: ignore[attr-defined]
            raise

    return noting


def _child(parent: Registry, *locations: str) -> Registry:
    # mmengine imports only a registry's own locations. With the parent's among them, a bare name
    # such as LARS is always found.
    everywhere = [*parent._locations, *locations]
    child = Registry(parent.name, parent=parent, scope="mmssprl", locations=everywhere)
    # From the scope of mmdet or mmseg, mmengine looks for `mmssprl.X` only among the root's direct
    # children.
    parent.root._add_child(child)
    # A runner builds by the root's. Loops are left out: their errors may come from the loader.
    if parent is not parents.LOOPS:
        for place in (parent.root, parent, child):
            place.build_func = _noting(place.build_func)
    return child


DATASETS = _child(parents.DATASETS, "mmssprl.datasets")
TRANSFORMS = _child(parents.TRANSFORMS, "mmssprl.datasets.transforms")
MODELS = _child(parents.MODELS, "mmssprl.models")
HOOKS = _child(parents.HOOKS, "mmssprl.engine", "mmssprl.probing", "mmssprl.distillation")
OPTIMIZERS = _child(parents.OPTIMIZERS, "mmssprl.engine")

RUNNERS = _child(parents.RUNNERS)
LOOPS = _child(parents.LOOPS, "mmssprl.engine")
LOG_PROCESSORS = _child(parents.LOG_PROCESSORS, "mmssprl.engine")
DATA_SAMPLERS = _child(parents.DATA_SAMPLERS)
MODEL_WRAPPERS = _child(parents.MODEL_WRAPPERS)
WEIGHT_INITIALIZERS = _child(parents.WEIGHT_INITIALIZERS)
OPTIM_WRAPPERS = _child(parents.OPTIM_WRAPPERS)
OPTIM_WRAPPER_CONSTRUCTORS = _child(parents.OPTIM_WRAPPER_CONSTRUCTORS)
PARAM_SCHEDULERS = _child(parents.PARAM_SCHEDULERS)
METRICS = _child(parents.METRICS, "mmssprl.probing")
EVALUATORS = _child(parents.EVALUATORS)
VISUALIZERS = _child(parents.VISUALIZERS)
VISBACKENDS = _child(parents.VISBACKENDS)
TASK_UTILS = _child(parents.TASK_UTILS)
# mmpretrain has none; mmengine takes collate functions from here.
FUNCTIONS = Registry(
    ROOT_FUNCTIONS.name, parent=ROOT_FUNCTIONS, scope="mmssprl", locations=["mmssprl.datasets"]
)


def class_of(kind: Any, registry: Registry, scope: str = "mmssprl") -> type | None:
    """Return the class of a config's ``type``, None if it is not registered."""
    if isinstance(kind, str):
        with _inner(registry, scope) as inner:
            try:
                kind = inner.get(kind)
            except RuntimeError:  # mmengine took it for the path of a class
                return None
    return kind if isinstance(kind, type) else None  # 'abc' finds Python's module


def registered_name(kind: Any, registry: Registry) -> str:
    """Return the name of a config's ``type``, which can be a class or the path of one.

    It has a scope if the bare name is another class. A class that is not registered has its path.
    """
    found = class_of(kind, registry)
    if found is None:
        return str(kind)
    for place in _places(registry):
        for name, each in place.module_dict.items():
            if each is found:
                return name if class_of(name, registry) is found else f"{place.scope}.{name}"
    return f"{found.__module__}.{found.__qualname__}"


def names_in(registry: Registry) -> set[str]:
    """Return all names that a config can use as ``type``."""
    return set().union(*(place.module_dict for place in _places(registry)))


def _places(registry: Registry) -> list[Registry]:
    """Return the registry of our scope and its parents, the nearest first."""
    with _inner(registry, "mmssprl") as inner:
        found = [inner]
        while found[-1].parent is not None:
            found.append(found[-1].parent)
    return found


@contextmanager
def _inner(registry: Registry, scope: str) -> Iterator[Registry]:
    if scope in ("mmdet", "mmseg"):
        import_quietly(f"{scope}.datasets")  # imported by the lookup; it prints
    with registry.switch_scope_and_registry(scope) as inner:
        inner.import_from_location()
        yield inner
