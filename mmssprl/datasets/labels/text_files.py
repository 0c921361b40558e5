"""Read text files as other systems write them."""

import codecs
from pathlib import Path


def text_of(path: Path, errors: str = "strict") -> str:
    """Return the text of a file in UTF-8, or in UTF-16 with a mark, as Windows writes it."""
    data = path.read_bytes()
    is_marked = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return data.decode("utf-16" if is_marked else "utf-8-sig", errors)
