"""The rows of the demonstration, each a method of the table of methods."""

from dataclasses import dataclass

from ..pretraining.methods import BY_KEY


@dataclass(frozen=True)
class DemoRow:
    """One row of the table.

    Args:
        key: Folder name.
        title: As printed.
        method: Key of the method; its config is that of the size ``scenes``.
        kind: Rows of one kind last equally long, for the estimate of the time left.
    """

    key: str
    title: str
    method: str
    kind: str

    @property
    def config(self) -> str:
        """Shipped config; its backbone with random weights if ``trains`` is False."""
        return f"configs/{BY_KEY[self.method].config}_resnet18_scenes.py"

    @property
    def trains(self) -> bool:
        """Whether it is trained before the probe."""
        return BY_KEY[self.method].trains


RANDOM = DemoRow("random", "random weights", "random", "probe")
SWAV_EPOCHS = DemoRow("swav_equal_epochs", "SwAV (no small views), equal epochs", "swav", "short")
SWAV_TIME = DemoRow("swav_equal_time", "SwAV (no small views), equal time", "swav", "long")
SWAV_SMALL_TIME = DemoRow(
    "swav_small_views_equal_time", "SwAV (six small views), equal time", "swav-small", "long"
)
SSPRL = DemoRow("ssprl", "SS-PRL (paper)", "ssprl", "long")
SMALL_SAMPLED_TIME = DemoRow(
    "ssprl_small_views_sampled_equal_time",
    "SS-PRL (six small views, sampled patches), equal time",
    "ssprl-small-sampled",
    "long",
)
METHODS = (RANDOM, SWAV_EPOCHS, SWAV_TIME, SWAV_SMALL_TIME, SSPRL, SMALL_SAMPLED_TIME)
