"""BYOL: the momentum of its target."""

from dataclasses import dataclass

from .method import Additions, RecipeMethod, RecipeRow, RecipeSetting
from .momentum import momentum_for

LONGEST_STEPS = 1_000_000
"""Updates from which on m_0 is that of the paper's longest training, of 1,000 epochs."""
LONGEST_MOMENTUM = 0.996


@dataclass(frozen=True, eq=False, kw_only=True)
class TargetMethod(RecipeMethod):
    """A method that predicts what a slowly moving target makes of the other view."""

    adamw_warmup_epochs: int = 1

    def additions(self, setting: RecipeSetting) -> Additions:
        """Choose m_0, from which the momentum rises to 1."""
        longest = setting.num_steps >= LONGEST_STEPS
        published = LONGEST_MOMENTUM if longest else self.coco.model.base_momentum
        momentum, reason = momentum_for(setting.num_steps, published)
        return Additions(
            {"model.base_momentum": momentum},
            {"momentum": RecipeRow(f"{momentum:.4g}, rising to 1", reason)},
        )
