"""Use objects that are annotated twice only once."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from .labelled_images import LabelledImage, Object, Splits, map_images


def without_repeats(splits: Splits, classes: Sequence[str], warnings: list[str]) -> Splits:
    """Drop objects that equal another one of their image, with a warning.

    A second box of one thing can never be found: it lowers every score. Objects without a place are
    kept, as they may be different ones.
    """
    repeated: list[str] = []

    def once(image: LabelledImage) -> LabelledImage:
        places = Counter((thing.label, thing.box) for thing in image.objects)
        found: dict[str, Object] = {}
        for number, thing in enumerate(image.objects):
            is_placed = thing.box is not None or bool(thing.segmentation)
            may_repeat = is_placed and places[thing.label, thing.box] > 1
            key = repr(thing) if may_repeat else str(number)  # of many polygons repr takes long
            if key in found:
                repeated.append(f"{classes[thing.label]} in {image.path}")
            found.setdefault(key, thing)

        if len(found) == len(image.objects):
            return image
        return replace(image, objects=tuple(found.values()))

    splits = map_images(splits, once)
    if repeated:
        warnings.append(
            f"{len(repeated)} objects repeat another one of their image, of the same class and in "
            f"the same place, for example {repeated[0]}: each is used once."
        )
    return splits
