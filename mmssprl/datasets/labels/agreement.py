"""One wording for two sources that must say the same."""

import unicodedata
from collections.abc import Sequence


def differing(
    rule: str, first: str, second: str, examples: Sequence[str], total: int, remedy: str
) -> str:
    """Return a message about two sources that differ.

    Args:
        rule: What must agree: "the data must have one list of classes".
        first: The first source, a file or a part of one.
        second: The second source.
        examples: Each difference; the first is named.
        total: Number of things compared.
        remedy: What to do, or what was done.
    """
    count = f"{len(examples)} of {total}"
    return (
        f"{rule}, but {first} and {second} differ in {count}, for example {examples[0]}; {remedy}."
    )


def spelled(name: str) -> str:
    """Return a name in one spelling: macOS and zip files may write é as e and an accent."""
    return unicodedata.normalize("NFC", name)


def plain(name: str) -> str:
    """Return a name without what people write in two ways: case, spaces and accents."""
    return "".join(spelled(name.casefold()).split())
