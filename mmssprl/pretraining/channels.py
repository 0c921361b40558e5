"""What ``pretrain --channels`` finds in the images, and what it changes in a config."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..console.wording import counted, on_one_line
from ..datasets import ImageReadError, UnlabeledImages
from ..datasets.channel_images import pixels_of, read_array
from ..errors import UserValueError
from ..pixels import Pixels
from .methods import RecipeMethod, RecipeRow

MOST_MEASURED = 256
"""Images, a fixed random part, whose pixels give means and deviations."""
_PREPROCESSOR = "model.data_preprocessor"


@dataclass(frozen=True)
class Channels:
    """What images hold, and mean and deviation of each channel, in the unit of their files."""

    pixels: Pixels
    mean: list[float]
    std: list[float]
    num_images: int

    @property
    def values(self) -> dict[str, Any]:
        """Values of a config by dotted key."""
        held = {"channels": self.pixels.channels, "dtype": self.pixels.dtype}
        own: dict[str, Any] = {"pixels": held, "mean": self.mean, "std": self.std}
        if self.pixels.white is None:
            own |= {"saturation": 0.0, "hue": 0.0, "grayscale_prob": 0.0, "solarize_prob": 0.0}
        values = {f"{_PREPROCESSOR}.{name}": value for name, value in own.items()}
        return {**values, "train_dataloader.dataset.pixels": held}

    @property
    def rows(self) -> dict[str, RecipeRow]:
        """What the recipe prints."""
        mean, std = (", ".join(f"{value:.4g}" for value in each) for each in (self.mean, self.std))
        kept = "as for photographs" if self.pixels.white else "flips, blur, brightness and contrast"
        why = "three channels of uint8 or uint16 are colours, R, G, B; others are none"
        measured = f"mean {mean}, deviation {std} in {counted(self.num_images, 'image')}"
        return {
            "channels": RecipeRow(str(self.pixels), measured),
            "changes": RecipeRow(kept, why),
        }


def check_method(method: RecipeMethod) -> None:
    """Refuse a method whose own preprocessor takes 8-bit RGB alone."""
    kind = method.coco.model.data_preprocessor.type
    if kind != "PyramidPreprocessor":
        raise UserValueError(
            f"channels must be left out for {method.run_name}, whose {kind} takes 8-bit RGB alone; "
            "choose another method."
        )


def measure_channels(images: UnlabeledImages, wanted: int) -> Channels:
    """Read a part of the images whole, and return what they hold.

    Raises:
        ValueError: Images of several numbers of channels or types, or of another number than
            ``wanted``; a channel of one value; or no image that can be read.
    """
    sample = images.sample(MOST_MEASURED)
    first: tuple[Pixels, str] | None = None
    parts: list[np.ndarray] = []  # each pixels, means, variances, lowest, highest: (5, C)
    failed: ImageReadError | None = None
    for index in range(len(sample)):
        path = sample.get_data_info(index)["img_path"]
        try:
            array = read_array(path)
        except ImageReadError as error:  # the recipe counts them
            failed = failed or error
            continue
        found = pixels_of(array)
        first = first or (found, path)
        if found != first[0]:
            raise UserValueError(
                "all images must have the same channels and type, but "
                f"{on_one_line(first[1])} has {first[0]} and {on_one_line(path)} has {found}; "
                "convert some, or move them to another folder."
            )
        values = array.reshape(-1, found.channels)
        moments, ends = (
            (values.mean(0, float), values.var(0, float)),
            (values.min(0), values.max(0)),
        )
        parts.append(np.stack([np.full(found.channels, len(values)), *moments, *ends]))
    if first is None:
        raise failed or UserValueError("there must be images to measure.")
    pixels, path = first
    if pixels.channels != wanted:
        raise UserValueError(
            f"channels must be the number that the images have, but got {wanted}, and "
            f"{on_one_line(path)} has {pixels}; give channels={pixels.channels}."
        )
    counts, means, variances, lowest, highest = np.stack(parts, axis=1)  # each (N, C)
    (constant,) = np.nonzero(lowest.min(axis=0) == highest.max(axis=0))
    if len(constant):
        raise UserValueError(
            f"every channel must vary, but channel {constant[0] + 1} of {pixels.channels} is "
            f"{lowest[0, constant[0]]:g} in all {counted(len(parts), 'image')} looked at; leave it "
            "out of the files."
        )
    mean = np.average(means, axis=0, weights=counts)
    std = np.sqrt(np.average(variances + (means - mean) ** 2, axis=0, weights=counts))
    rounded_mean, rounded_std = ([float(f"{x:.6g}") for x in each] for each in (mean, std))
    return Channels(pixels, rounded_mean, rounded_std, len(parts))
