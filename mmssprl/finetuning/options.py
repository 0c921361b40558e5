"""What a fine-tuning is asked for, and what is wrong with it whatever the images are."""

import math
from dataclasses import dataclass

from ..config.run_checks import missing_package
from ..datasets.labels import DEFAULT_VAL_SHARE
from ..errors import UserRuntimeError, UserValueError
from ..pretraining.backbones import find_backbone
from ..pyramid import MOST_PX
from ..weights import RANDOM, SUPERVISED, read_backbone
from .tasks import TASKS

LEAST_BATCH = 2
LEAST_PX = 32
"""Side of the images: a ResNet's last map has one cell then."""
_USUAL_PX = 224
"""Side that every backbone takes."""


@dataclass(frozen=True)
class Options:
    """The options of a fine-tuning; None lets the recipe choose.

    Args:
        weights: Backbone weights or a training checkpoint, 'random' or 'supervised'.
        task: 'classify', 'detect' or 'segment'.
        epochs: Passes over the images, at least 1.
        batch_size: Images per device and step, at least 2.
        lr: Highest learning rate of AdamW, above 0.
        image_px: See ``FinetuneRecipe``; from 32 to 2,048.
        freeze: Train the heads alone.
        backbone: Name of ``find_backbone``, for weights beside which no config lies.
        val_share: Of the images, held out where the data have no split of their own.
        seed: Of all randomness.
    """

    weights: str
    task: str
    epochs: int | None = None
    batch_size: int | None = None
    lr: float | None = None
    image_px: int | None = None
    freeze: bool = False
    backbone: str | None = None
    val_share: float = DEFAULT_VAL_SHARE
    seed: int = 0

    def check(self) -> None:
        """Refuse what is wrong before any label is read.

        Raises:
            FileNotFoundError: There are no such weights.
            RuntimeError: The package of the task's models, or of the backbone, is not installed.
            ValueError: A file that holds no weights, a number out of range, no such backbone, or
                one of random weights that stays so.
        """
        require_package(TASKS[self.task].scope, f"--task {self.task}")
        asked = {
            "epochs": (self.epochs, 1, math.inf),
            "batch-size": (self.batch_size, LEAST_BATCH, math.inf),
            "image-px": (self.image_px, LEAST_PX, MOST_PX),
        }
        for option, (value, least, most) in asked.items():
            if value is not None and not (isinstance(value, int) and least <= value <= most):
                limits = f"of at least {least}" if most == math.inf else f"from {least} to {most}"
                raise UserValueError(
                    f"--{option} must be an integer {limits}, but got {value}; leave it out to "
                    "have it chosen."
                )
        if self.lr is not None and not 0 < self.lr < math.inf:
            raise UserValueError(
                f"--lr must be a finite number above 0, but got {self.lr}; leave it out to have it "
                "chosen."
            )
        if self.freeze and self.weights == RANDOM:
            raise UserValueError(
                "--freeze keeps what the weights have learned, but they are random; give a file, "
                "or leave it out."
            )
        if self.weights not in (RANDOM, SUPERVISED):
            read_backbone(self.weights)  # says what is wrong with the file
        if self.backbone:
            find_backbone(self.backbone, [self.image_px or _USUAL_PX])


def require_package(scope: str, who: str) -> None:
    """Raise RuntimeError if the package with the models of a registry scope is not installed."""
    missing = missing_package(scope)
    if missing:
        raise UserRuntimeError(
            f"{who} needs {missing}, but it is not installed; "
            "pip install -r requirements/transfer.txt."
        )
