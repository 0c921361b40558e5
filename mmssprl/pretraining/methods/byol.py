"""BYOL: the momentum of its target."""

from dataclasses import dataclass

from .method import Additions, Method, Row, Setting
from .momentum import momentum_for


@dataclass(frozen=True)
class TargetMethod(Method):
    """A method that predicts what a slowly moving target makes of the other view."""

    def additions(self, setting: Setting) -> Additions:
        """Choose m_0, from which the momentum rises to 1."""
        momentum, reason = momentum_for(setting.num_steps, setting.published["base_momentum"])
        return Additions(
            {"model.base_momentum": momentum},
            {"momentum": Row(f"{momentum:.4g}, rising to 1", reason)},
        )


BYOL = TargetMethod(
    key="byol",
    title="BYOL",
    base_config="configs/baselines/byol_resnet50_2xb64-coslr-200e_coco.py",
    adamw_lr=1e-3,
    adamw_warmup_epochs=1,
)
