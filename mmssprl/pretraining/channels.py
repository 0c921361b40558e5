"""Measure the channels of images for ``pretrain --channels``, and set them in a config."""

from typing import Any, NamedTuple

import numpy as np

from ..console.wording import counted, on_one_line
from ..datasets import ImageReadError, UnlabeledImages
from ..datasets.channel_images import pixels_of, read_array
from ..errors import UserValueError
from ..pixels import Pixels
from .chosen import Recipe, RecipeRow

MOST_MEASURED = 256
"""Most images, drawn once at random, for means and deviations."""
_OF_COLOURS = ("saturation", "hue", "grayscale_prob", "solarize_prob")


class Channels(NamedTuple):
    """Type of the images, and mean and deviation of each channel in the unit of the files."""

    pixels: Pixels
    mean: list[float]
    std: list[float]
    num_images: int

    def add_to(self, recipe: Recipe) -> dict[str, Any]:
        """Add a row to a recipe, and return the changes of its config by dotted key.

        Raises:
            ValueError: The method's preprocessor, or a teacher, takes only 8-bit RGB.
        """
        kind = recipe.base.model.data_preprocessor.type
        if recipe.method.uses_teacher or recipe.asked.teacher:
            kind = "teacher"
        if kind != "PyramidPreprocessor":
            raise UserValueError(
                f"channels must be left out for {recipe.method.key}, whose {kind} takes only "
                "8-bit RGB; choose another method, without a teacher."
            )
        mean, std = (", ".join(f"{value:.4g}" for value in each) for each in self[1:3])
        measured = f"mean {mean}, deviation {std} in {counted(self.num_images, 'image')}"
        recipe.rows["channels"] = RecipeRow(str(self.pixels), measured)
        held = self.pixels._asdict()
        changed: dict[str, Any] = {"pixels": held, "mean": self.mean, "std": self.std}
        if self.pixels.white is None:
            changed |= dict.fromkeys(_OF_COLOURS, 0)
        values = {f"model.data_preprocessor.{name}": value for name, value in changed.items()}
        return {**values, "train_dataloader.dataset.pixels": held}


def measure_channels(images: UnlabeledImages, wanted: int) -> Channels:
    """Read some of the images, return what they hold, and set it in the data set.

    Raises:
        ValueError: The images differ in channels or type, have not ``wanted`` channels, have a
            constant channel, or none can be read.
    """
    sample = images.sample(MOST_MEASURED)
    first: tuple[Pixels, str, tuple[int, ...]] | None = None
    parts: list[np.ndarray] = []  # per image: count, means, variances, lowest, highest (5, C)
    failed: ImageReadError | None = None
    for index in range(len(sample)):
        path = sample.get_data_info(index)["img_path"]
        try:
            array = read_array(path)
        except ImageReadError as error:  # counted later
            failed = failed or error
            continue
        found = pixels_of(array)
        first = first or (found, path, array.shape)
        if found != first[0]:
            raise UserValueError(
                "all images must have the same channels and type, but "
                f"{on_one_line(first[1])} has {first[0]} and {on_one_line(path)} has {found}; "
                "convert them, or move them to another folder."
            )
        values = array.reshape(-1, found.channels)
        means, variances = values.mean(0, float), values.var(0, float)
        size, ends = np.full_like(means, len(values)), (values.min(0), values.max(0))
        parts.append(np.stack([size, means, variances, *ends]))
    if first is None:
        raise failed or UserValueError("there must be images to measure.")
    pixels, path, shape = first
    if pixels.channels != wanted:
        raise UserValueError(
            f"channels must be that of the images, but got {wanted}, and {on_one_line(path)} of "
            f"(H, W, C) = {shape} has {pixels}; give channels={pixels.channels}, or correct the "
            "files."
        )
    counts, means, variances, lowest, highest = np.stack(parts, axis=1)  # each (N, C)
    (constant,) = np.nonzero(lowest.min(axis=0) == highest.max(axis=0))
    if len(constant):
        raise UserValueError(
            f"every channel must vary, but channel {constant[0] + 1} of {pixels.channels} is "
            f"{lowest[0, constant[0]]:g} in all {counted(len(parts), 'image')}; remove it from the "
            "files."
        )
    mean = np.average(means, axis=0, weights=counts)
    std = np.sqrt(np.average(variances + (means - mean) ** 2, axis=0, weights=counts))
    rounded, deviations = ([float(f"{x:.6g}") for x in each] for each in (mean, std))
    images.pixels = pixels
    return Channels(pixels, rounded, deviations, len(parts))
