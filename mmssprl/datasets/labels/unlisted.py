"""Find images that lie among labelled ones, but that no annotation names."""

import os

from .files import Files
from .labelled_images import Splits, all_images


def warn_of_unlisted(files: Files, splits: Splits, warnings: list[str]) -> None:
    """Warn of images in the folders of the labelled ones that are not in the splits.

    They may show no object, as a YOLO image without a text does. Of a single file nothing is said:
    it may be one of several.
    """
    if files.is_one_file:
        return
    listed = {os.path.relpath(image.path, files.root) for image in all_images(splits)}
    folders = {os.path.dirname(name) for name in listed}
    near = [name for name in files.photographs if os.path.dirname(name) in folders]
    lost = [name for name in near if name not in listed]
    if lost:
        warnings.append(
            f"{len(lost)} of {len(near)} images next to labelled ones are in no annotation file, "
            f"for example {lost[0]}: they are not used. If they show no object, list them without "
            "annotations."
        )
