"""The backbone weights that a transfer training starts from."""

import pickle
from pathlib import Path

from mmengine.hooks import Hook
from mmengine.logging import print_log
from mmengine.runner import Runner
from torch import Tensor

from ...errors import UserOSError, UserValueError
from ...registry import HOOKS
from ...weights import check_fit, read_backbone
from .pretrain_hook import unwrap

SUPERVISED = "supervised"


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


def supervised_state(depth: int) -> dict[str, Tensor]:
    """Return torchvision's weights of a ResNet trained on ImageNet, without the classifier.

    They are downloaded once into torch's own cache, with a progress bar, and checked.

    Raises:
        OSError: They are not in the cache and cannot be downloaded.
        ValueError: torchvision has no ResNet of this depth, or the file in the cache is damaged or
            holds other things than tensors.
    """
    import torch
    from torchvision.models import get_model_weights, list_models

    name = f"resnet{depth}"
    if name not in list_models():
        raise UserValueError(
            f"supervised weights exist for torchvision's ResNets, but there is no {name}; "
            "give a file or 'random'."
        )
    entry = get_model_weights(name)["IMAGENET1K_V1"]
    folder = Path(torch.hub.get_dir()) / "checkpoints"
    try:
        state = entry.get_state_dict(progress=True, check_hash=True, weights_only=True)
    except (pickle.UnpicklingError, EOFError, RuntimeError) as error:
        # Of a hash that differs, too: torch checks it after a download, and not in the cache.
        raise UserValueError(
            f"the supervised weights must be torchvision's own file, but that in {folder} cannot "
            f"be read ({type(error).__name__}); delete it, and put {entry.url} there."
        ) from error
    except OSError as error:
        raise UserOSError(
            f"the supervised weights are neither in {folder} nor can they be downloaded ({error}); "
            f"put {entry.url} there."
        ) from error
    return {key: value for key, value in state.items() if not key.startswith("fc.")}
