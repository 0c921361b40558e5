"""Mean and deviation in the config that a checkpoint of an OpenMMLab runner holds as text.

The text is parsed, and no code in it is run.
"""

import ast
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..pixels import Normalisation
from .checkpoint_file import read_checkpoint, say_once

_PREPROCESSORS = ("data_preprocessor", "img_norm_cfg")
"""Names of the dict in a config; the second one is of versions before mmengine."""
_IN_RGB = ("to_rgb", "bgr_to_rgb")
"""Options that turn the BGR of mmcv's reader into RGB."""
_LONGEST = 10**6


def stored_normalisation(file: Path) -> Normalisation | None:
    """Return the numbers in the config inside a checkpoint; None if it has none.

    Warns of a network that takes BGR, because images are RGB here.
    """
    found = [*_preprocessors(_config_text(file))]
    if not found or any(each != found[0] for each in found):
        return None

    own = found[0]
    mean = tuple(map(float, own["mean"]))
    std = tuple(map(float, own["std"]))
    if not any(own.get(key) for key in _IN_RGB) and not _reads_rgb(own):
        mean = mean[::-1]
        std = std[::-1]
        say_once(
            f"warning: {file} was trained on BGR images, as its config says, but images are RGB "
            "here; reverse the input channels of its first convolution by flip(1)."
        )
    return Normalisation(mean, std, f"the config in {file.name}")


def _reads_rgb(preprocessor: dict[str, Any]) -> bool:
    """Whether it is one of ours, which read RGB."""
    kind = str(preprocessor.get("type"))
    return kind.rpartition(".")[2] in ("PyramidPreprocessor", "PastePreprocessor")


def _config_text(file: Path) -> str:
    """Return the config in a checkpoint; '' if it has none."""
    content = None
    if file.suffix != ".safetensors":  # holds nothing but tensors
        with suppress(UserError):  # who reads the weights reports it
            content = read_checkpoint(file, mmap=True)
    meta = content.get("meta") if isinstance(content, dict) else None
    texts = [meta.get(key) for key in ("cfg", "config")] if isinstance(meta, dict) else []
    text = next((each for each in texts if isinstance(each, str)), "")
    return text if len(text) <= _LONGEST else ""


def _preprocessors(text: str) -> Iterator[dict[str, Any]]:
    """Yield the dicts with three means and deviations of 8-bit images."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        named: list[tuple[Any, Any]] = []
        if isinstance(node, ast.keyword):
            named = [(node.arg, node.value)]
        if isinstance(node, ast.Assign):
            named = [(getattr(target, "id", None), node.value) for target in node.targets]
        for name, value in named:
            own = _values(value) if name in _PREPROCESSORS else {}
            are_numbers = all(map(_are_colours, (own.get("mean"), own.get("std"))))
            if are_numbers and "pixels" not in own:
                yield {key: own.get(key) for key in ("mean", "std", "type", *_IN_RGB)}


def _are_colours(values: Any) -> bool:
    """Whether it is three numbers."""
    is_list = isinstance(values, list | tuple) and len(values) == 3
    return is_list and all(type(each) in (int, float) for each in values)


def _values(node: ast.expr) -> dict[str, Any]:
    """Return the values of ``dict(...)`` by name; what is no literal stays a node."""
    found: dict[str, Any] = {}
    if not isinstance(node, ast.Call):
        return found
    for each in node.keywords:
        found[str(each.arg)] = each.value
        with suppress(ValueError, TypeError, RecursionError):  # such as another dict
            found[str(each.arg)] = ast.literal_eval(each.value)
    return found
