"""BYOL: the momentum of its target."""

from dataclasses import dataclass

from .method import Additions, Method, Row, Setting
from .momentum import momentum_for

LONGEST_STEPS = 1_000_000
"""Updates from which on m_0 is that of the paper's longest training, of 1,000 epochs."""
LONGEST_MOMENTUM = 0.996


@dataclass(frozen=True)
class TargetMethod(Method):
    """A method that predicts what a slowly moving target makes of the other view."""

    def additions(self, setting: Setting) -> Additions:
        """Choose m_0, from which the momentum rises to 1."""
        longest = setting.num_steps >= LONGEST_STEPS
        published = LONGEST_MOMENTUM if longest else setting.coco.model.base_momentum
        momentum, reason = momentum_for(setting.num_steps, published)
        return Additions(
            {"model.base_momentum": momentum},
            {"momentum": Row(f"{momentum:.4g}, rising to 1", reason)},
        )


BYOL = TargetMethod(
    key="byol",
    title="BYOL",
    base_config="configs/baselines/byol_resnet50_2xb64-coslr-200e_coco.py",
    imagenet_config="configs/baselines/byol_resnet50_8xb32-coslr-100e_in1k.py",
    adamw_lr=2e-3,  # 3e-3 and 1.5e-3, each the highest that was tried
    adamw_warmup_epochs=1,
)
