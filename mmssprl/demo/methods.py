"""The rows of the demonstration's table."""

from dataclasses import dataclass

SSPRL_CONFIG = "configs/ssprl/ssprl_resnet18_scenes.py"
SWAV_CONFIG = "configs/ssprl/ssprl-image-only_resnet18_scenes.py"
SWAV_SMALL_CONFIG = "configs/ssprl/ssprl-image-only-small-views_resnet18_scenes.py"
SMALL_SAMPLED_CONFIG = "configs/ssprl/ssprl-small-views-sampled_resnet18_scenes.py"


@dataclass(frozen=True)
class Method:
    """One row of the table.

    Args:
        key: Folder name.
        title: As printed.
        config: Shipped config; its backbone with random weights if ``trains`` is False.
        kind: Rows of one kind last equally long, for the estimate of the time left.
        trains: Whether it is trained before the probe.
    """

    key: str
    title: str
    config: str
    kind: str
    trains: bool = True


RANDOM = Method("random", "random weights", SSPRL_CONFIG, "probe", trains=False)
SWAV_EPOCHS = Method(
    "swav_equal_epochs", "SwAV (no small views), equal epochs", SWAV_CONFIG, "short"
)
SWAV_TIME = Method("swav_equal_time", "SwAV (no small views), equal time", SWAV_CONFIG, "long")
SWAV_SMALL_TIME = Method(
    "swav_small_views_equal_time", "SwAV (six small views), equal time", SWAV_SMALL_CONFIG, "long"
)
SSPRL = Method("ssprl", "SS-PRL (paper)", SSPRL_CONFIG, "long")
SMALL_SAMPLED_TIME = Method(
    "ssprl_small_views_sampled_equal_time",
    "SS-PRL (six small views, sampled patches), equal time",
    SMALL_SAMPLED_CONFIG,
    "long",
)
METHODS = (RANDOM, SWAV_EPOCHS, SWAV_TIME, SWAV_SMALL_TIME, SSPRL, SMALL_SAMPLED_TIME)
