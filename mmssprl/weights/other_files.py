"""What a file is that holds no weights, by its first bytes."""

import codecs
import re
from pathlib import Path

_TAKE_FILE = "download the file itself"
_TAKE_TORCHS = "give the .safetensors or .pth of the same network"
_OTHERS = [
    (rb"$", "it is empty", "copy or download it again"),
    (
        rb"version https://git-lfs",
        "it is a Git LFS pointer",
        f"run `git lfs pull` in its folder, or {_TAKE_FILE}",
    ),
    (rb"<(!|html|head|\?xml)", "it is a web page", f"{_TAKE_FILE}, not its page"),
    (rb'\{["\s]', "it is JSON", "give the file with the tensors, often next to it"),
    (rb"\x89HDF", "it is HDF5, as Keras writes it", "give the weights of a PyTorch network"),
    (rb"GGUF", "it is GGUF", _TAKE_TORCHS),
    (rb"PK\x03\x04.{26}[^\0]{1,80}\.npy", "it is NumPy's .npz", _TAKE_TORCHS),
    (rb"\x08.\x12", "it looks like ONNX", _TAKE_TORCHS),
    (rb"\x1f\x8b", "it is packed by gzip", "unpack it, and give the file in it"),
]
"""First bytes of files that are not weights, what they are, and what to do."""


def other_file(path: Path) -> tuple[str, str] | None:
    """Return what a file is by its first bytes, and the remedy; None if they do not tell."""
    with path.open("rb") as file:
        start = file.read(256).removeprefix(codecs.BOM_UTF8).strip()
    for first, kind, remedy in _OTHERS:
        if re.match(first, start, re.IGNORECASE | re.DOTALL):
            return kind, remedy
    line = start.decode("latin1").splitlines()[0]
    is_text = start.isascii() and line.isprintable()
    return (f"it is text, {line[:40]!r}", _TAKE_FILE) if is_text else None
