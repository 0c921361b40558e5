"""Turn the label images of stored pixels with their images."""

from collections.abc import Sequence
from dataclasses import replace

from ...errors import UserValueError
from ..image_reading import open_image, stored_size
from .labelled_images import LabelledImage

_TURNED = range(2, 9)


def turn_label_images(images: Sequence[LabelledImage], warnings: list[str]) -> list[LabelledImage]:
    """Return the images of known size with the orientation that their label images need.

    A label image of the swapped size is of the stored pixels. Where EXIF leaves the size as it is,
    the others decide; a warning if they do not.

    Raises:
        ValueError: A label image has another size than its image, as shown or stored.
    """
    fits = {}
    for image in images:
        if image.mask is None or not all(image.size):
            continue
        with open_image(image.path) as file:
            stored, orientation = stored_size(file)
        with open_image(image.mask) as file:
            size = file.size
        if size not in (stored, image.size):
            shown = "{} x {} px instead of {} x {} px".format(*size, *image.size)
            raise UserValueError(
                f"{image.mask}: a label image must have the size of its image, but has {shown}; "
                "write it again at full size."
            )
        if orientation in _TURNED:
            fits[image.path] = (orientation, size == image.size, size == stored)

    of_stored = {path for path, (_, as_shown, _) in fits.items() if not as_shown}
    of_shown = {path for path, (_, _, as_stored) in fits.items() if not as_stored}
    of_either = fits.keys() - of_stored - of_shown
    if of_either and bool(of_stored) == bool(of_shown):
        warnings.append(
            f"EXIF turns {len(of_either)} images without changing their size, for example "
            f"{min(of_either)}: their label images are read as those of the images as shown."
        )
    elif of_stored:
        of_stored |= of_either
    if of_stored:
        warnings.append(
            f"{len(of_stored)} of {len(images)} label images are of the stored pixels, before EXIF "
            "orientation: they are turned with the images."
        )
    return [
        replace(image, mask_orientation=fits[image.path][0]) if image.path in of_stored else image
        for image in images
    ]
