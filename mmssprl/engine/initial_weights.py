"""The one field by which a config takes the weights of its backbone: ``weights``."""

from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.logging import print_log
from mmengine.runner import Runner

from ..errors import UserValueError
from ..models import is_pretraining
from ..models.unwrap import unwrap
from ..registry import HOOKS, MODELS, class_of
from ..weights import RANDOM, SUPERVISED, check_fit, read_backbone, supervised_state
from .adapted_backbone import fit_backbone

_HOOK = "mmssprl.InitialWeightsHook"
_TORCHVISION = {
    **{"stem_channels": 64, "base_channels": 64, "num_stages": 4, "style": "pytorch"},
    **{"deep_stem": False, "avg_down": False},
}


@HOOKS.register_module()
class InitialWeightsHook(Hook):
    """Fill ``model.backbone`` before the first step; a resumed training keeps its own weights.

    Args:
        weights: Backbone weights or a training checkpoint, read without running code from it, or
            'supervised': torchvision's ResNet trained on ImageNet's labels (IMAGENET1K_V1).
        depth: Depth of that ResNet.

    Raises:
        ValueError: Weights that do not fit the backbone, when the training starts.
    """

    def __init__(self, weights: str, depth: int = 50) -> None:
        self.weights = weights
        self.depth = depth

    def before_train(self, runner: Runner) -> None:
        """Load the weights, all of them or none."""
        if runner.iter > 0:
            return
        supervised = self.weights == SUPERVISED
        state = supervised_state(self.depth) if supervised else read_backbone(self.weights)
        backbone = unwrap(runner.model).backbone
        check_fit(
            state,
            backbone.state_dict(),
            weights=self.weights,
            owner=str(runner.cfg.filename),
            remedy="give weights of this backbone.",
        )
        # Only BatchNorm's step counters may be missing.
        backbone.load_state_dict(state, strict=False)
        print_log(f"backbone weights: {len(state)} tensors of {self.weights}", logger="current")


def apply_weights(cfg: Config, weights: str | None, *, adapt: bool = True) -> None:
    """Make a training start from the weights that ``cfg.weights`` names, checked beforehand.

    ``weights`` replaces that field: 'random', 'supervised' or a file. With ``adapt`` weights of
    another backbone bring theirs along, see ``fit_backbone``; in pre-training they never do.

    Raises:
        FileNotFoundError: There is no such file.
        OSError: Supervised weights that cannot be downloaded.
        ValueError: A config without the field, weights that do not fit the backbone, or a backbone
            with an initialisation of its own beside them.
    """
    if weights is not None:
        if "weights" not in cfg and not is_pretraining(cfg):
            raise UserValueError(
                f"--weights is for pre-training and for configs with a field `weights` "
                f"(configs/benchmarks), but {cfg.filename} is neither; leave it out, or set "
                "load_from for a whole checkpoint."
            )
        cfg.weights = str(weights)
    # A config dumped by an earlier run has the hook already.
    others = [own for own in cfg.get("custom_hooks") or [] if own["type"] != _HOOK]
    if others or cfg.get("custom_hooks"):
        cfg.custom_hooks = others
    chosen = cfg.get("weights")
    if chosen in (None, RANDOM):
        return
    if cfg.model.backbone.get("init_cfg"):
        raise UserValueError(
            f"a config must name its backbone weights once, but got weights={chosen!r} and "
            "model.backbone.init_cfg; remove the latter."
        )
    hook: dict[str, Any] = {"type": _HOOK, "weights": chosen}
    if chosen == SUPERVISED:
        hook["depth"] = torchvision_depth(cfg)
        supervised_state(hook["depth"])
    else:
        hook["weights"] = str(Path(chosen).resolve())
        fit_backbone(cfg, str(chosen), adapt=adapt and not is_pretraining(cfg))
    cfg.custom_hooks = [*others, hook]


def torchvision_depth(cfg: Config) -> int:
    """Return the depth of a config's backbone, which is one of torchvision's ResNets.

    Raises:
        ValueError: It is another network.
    """
    backbone = cfg.model.backbone
    own = [key for key, value in _TORCHVISION.items() if backbone.get(key, value) != value]
    kind = class_of(backbone.type, MODELS, cfg.get("default_scope", "mmssprl"))
    # Each scope has a ResNet of its own, and classes with other stems derive from it.
    if kind is None or kind.__name__ != "ResNet" or own:
        got = ", ".join([str(backbone.type), *(f"{key}={backbone[key]}" for key in own)])
        raise UserValueError(
            "weights='supervised' are torchvision's, for a ResNet of standard width and depth, but "
            f"the backbone of {cfg.filename} is {got}; give a file or 'random'."
        )
    return int(backbone.depth)
