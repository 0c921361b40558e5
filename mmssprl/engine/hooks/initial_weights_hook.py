"""The backbone weights that a training starts from."""

from mmengine.hooks import Hook
from mmengine.logging import print_log
from mmengine.runner import Runner

from ...models.unwrap import unwrap
from ...registry import HOOKS
from ...weights import SUPERVISED, check_fit, read_backbone, supervised_state


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
