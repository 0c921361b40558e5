"""Compare the colours of label images with each other and with CVAT's labelmap.txt."""

from collections.abc import Mapping, Set

from ...errors import UserValueError
from ..image_reading import open_image
from .agreement import differing
from .files import Files
from .label_maps import gray_levels, palette_of
from .labelled_images import Colour


def listed_colours(files: Files) -> tuple[Colour, ...]:
    """Return the colours of the classes in labelmap.txt; () without."""
    names = files.ending("labelmap.txt")
    lines = files.read_lines(names[0]) if names else []
    found = []
    for line in lines:
        if not line.strip() or line.startswith("#"):
            continue
        numbers = f"{line}:".split(":")[1].split(",")
        if len(numbers) != 3 or not all(number.strip().isdigit() for number in numbers):
            return ()
        red, green, blue = map(int, numbers)
        found.append((red, green, blue))
    return tuple(found)


def are_by_colour(
    files: Files, names: Mapping[str, Set[int]], listed: tuple[Colour, ...], warnings: list[str]
) -> bool:
    """Whether label images of indices, by name, must be read by the listed colours instead.

    They must if an index has another colour in another palette, or in the list.

    Raises:
        ValueError: Palettes differ, and no list has their colours.
    """
    first: dict[int, tuple[Colour, str]] = {}
    unequal: dict[str, int] = {}
    pairs = set()
    for name, indices in names.items():
        own = _palette(files, name)
        for index in sorted(indices & {*range(len(own))}):
            colour = own[index]
            pairs.add((index, colour))
            if first.setdefault(index, (colour, name))[0] != colour:
                unequal.setdefault(name, index)

    are_listed = bool(pairs) and all(colour in listed for _, colour in pairs)
    if unequal and not are_listed:
        other, index = next(iter(unequal.items()))
        colour, name = first[index]
        raise UserValueError(
            differing(
                "all label images must give an index one colour in their palettes",
                name,
                other,
                [f"index {index}: {colour} and {_palette(files, other)[index]}"] * len(unequal),
                len(names),
                "save them with one palette, or list name:red,green,blue of each class in "
                "labelmap.txt",
            )
        )
    is_other = are_listed and any(listed[index : index + 1] != (c,) for index, c in pairs)
    if is_other:
        warnings.append(
            "the palettes of the label images and labelmap.txt give other colours to an index: "
            "classes are read by the colours."
        )
    return is_other


def _palette(files: Files, name: str) -> list[Colour]:
    """Return 256 colours; none for levels of gray."""
    with open_image(files.path(name)) as file:
        colours = palette_of(file).tolist() if gray_levels(file) is None else []
    return [(red, green, blue) for red, green, blue in colours]
