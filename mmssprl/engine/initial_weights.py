"""The weights that the backbone of a training starts from."""

from collections.abc import Mapping
from typing import Any

from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.logging import print_log
from mmengine.runner import Runner

from ..config.hooks import add_hook, remove_hooks
from ..errors import UserValueError
from ..models import is_pretraining
from ..models.unwrap import unwrap
from ..registry import HOOKS, MODELS, class_of
from ..weights import (
    Source,
    check_fit,
    find_normalisation,
    start_state,
    take_normalisation,
    whole_path,
)
from ..weights.checkpoint_prefixes import find_network
from .adapted_backbone import TORCHVISION_FIELDS, build_for_config, fit_backbone


@HOOKS.register_module()
class InitialWeightsHook(Hook):
    """Load weights into ``model.backbone`` before the first step, but not in a resumed training.

    Args:
        weights: WEIGHTS as in ``start_state``; 'supervised' is torchvision's IMAGENET1K_V1.
        depth: Depth of torchvision's ResNet.

    Raises:
        ValueError: At the start, if the weights do not fit the backbone.
    """

    def __init__(self, weights: str, depth: int = 50) -> None:
        self.weights = weights
        self.depth = depth

    def before_train(self, runner: Runner) -> None:
        """Load all weights."""
        if runner.iter > 0:
            return
        backbone = unwrap(runner.model).backbone
        expected = backbone.state_dict()
        state = start_state(self.weights, self.depth, expected)
        check_fit(
            state,
            expected,
            weights=self.weights,
            owner=str(runner.cfg.filename),
            remedy="give weights of this backbone.",
        )
        # Only BatchNorm's step counters may be missing.
        backbone.load_state_dict(state, strict=False)
        print_log(f"backbone weights: {len(state)} tensors of {self.weights}", logger="current")


def apply_weights(cfg: Config, weights: str | None, *, adapt: bool = True) -> None:
    """Check the weights in ``cfg.weights``, and make the training start from them.

    ``weights`` replaces that field. With ``adapt``, except in pre-training, the config's backbone
    is replaced if the weights do not fit it, see ``fit_backbone``.

    Raises:
        FileNotFoundError: The file is missing.
        OSError: Supervised weights cannot be downloaded.
        ValueError: There is no such field, an ``init_cfg`` as well, or the weights do not fit.
    """
    if weights is not None:
        if "weights" not in cfg and not is_pretraining(cfg):
            raise UserValueError(
                "--weights needs a pre-training config or one with a field `weights` "
                f"(configs/benchmarks), but {cfg.filename} is neither; leave it out, or set "
                "load_from to load a full checkpoint."
            )
        cfg.weights = str(weights)

    # A config dumped by an earlier run has the hook already.
    remove_hooks(cfg, InitialWeightsHook.__name__)

    chosen = cfg.get("weights")
    source = Source.of(chosen)
    if source.is_random:
        _check_init_cfg(cfg)
        return
    if cfg.model.backbone.get("init_cfg"):
        raise UserValueError(
            f"weights={chosen!r} and model.backbone.init_cfg both load the backbone; remove "
            "model.backbone.init_cfg."
        )

    hook: dict[str, Any] = {"weights": chosen}
    if source.is_supervised:
        hook["depth"] = torchvision_depth(cfg)
        start_state(chosen, hook["depth"])
    else:
        hook["weights"] = whole_path(chosen)
        fit_backbone(cfg, str(chosen), adapt=adapt and not is_pretraining(cfg))
    take_normalisation(cfg, find_normalisation(chosen, cfg.model.backbone))
    add_hook(cfg, f"mmssprl.{InitialWeightsHook.__name__}", **hook)


def torchvision_depth(cfg: Config) -> int:
    """Return the depth of a config's backbone; raise ValueError if it is not torchvision's."""
    backbone = cfg.model.backbone
    own = [key for key, value in TORCHVISION_FIELDS.items() if backbone.get(key, value) != value]
    kind = class_of(backbone.type, MODELS, cfg.get("default_scope", "mmssprl"))
    # By name: each scope has its own ResNet, and its subclasses have other stems.
    if kind is None or kind.__name__ != "ResNet" or own:
        got = ", ".join([str(backbone.type), *(f"{key}={backbone[key]}" for key in own)])
        raise UserValueError(
            "weights='supervised' needs torchvision's ResNet of standard width and depth, but the "
            f"backbone of {cfg.filename} is {got}; give a file or 'random'."
        )
    return int(backbone.depth)


def _check_init_cfg(cfg: Config) -> None:
    """Refuse an ``init_cfg`` if mmengine would not find the backbone in its file."""
    init: Any = (cfg.model.get("backbone") or {}).get("init_cfg")
    path = init.get("checkpoint") if isinstance(init, Mapping) else None
    if not path or "://" in path or init.get("prefix"):
        return
    prefix = find_network(path, build_for_config(cfg).state_dict()).prefix
    if prefix.removeprefix("state_dict.") not in ("", "module."):
        raise UserValueError(
            "model.backbone.init_cfg reads a backbone at the top of a file or in its state_dict, "
            f"but {path} has it below {prefix!r}; `convert` it, or give it by `weights`."
        )
