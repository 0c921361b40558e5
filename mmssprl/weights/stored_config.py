"""What a checkpoint says of its training: the config of an OpenMMLab runner, timm's options.

The text of a config is parsed, and no code in it is run.
"""

import ast
import functools
import math
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from .._dependencies import is_importable
from ..errors import UserError, UserValueError
from ..pixels import IMAGENET_MEAN, IMAGENET_STD, Normalisation
from .checkpoint_file import read_checkpoint
from .description import HubRecord, find_description, read_description

_PREPROCESSORS = ("data_preprocessor", "img_norm_cfg")
"""Names of the dict in a config; the second one is of versions before mmengine."""
_IN_RGB = ("to_rgb", "bgr_to_rgb")
"""Options that turn the BGR of mmcv's reader into RGB."""
_OF_BGR = (
    "ClsDataPreprocessor",
    "DetDataPreprocessor",
    "ImgDataPreprocessor",
    "MultiModalDataPreprocessor",
    "PoseDataPreprocessor",
    "SegDataPreProcessor",
    "SelfSupDataPreprocessor",
    "TrackDataPreprocessor",
    "TwoNormDataPreprocessor",
    "YOLOv5DetDataPreprocessor",
)
"""OpenMMLab's preprocessors, which leave BGR unless an option says otherwise."""
_OURS = ("PyramidPreprocessor", "PastePreprocessor")
_OUR_NUMBERS = {"mean": IMAGENET_MEAN, "std": IMAGENET_STD}
"""What our preprocessors take if a config does not set it, as the shipped ones."""
_OF_BACKBONE = {"type", "depth"}
"""A dict of a backbone has one of these."""
WHITE = 255.0
_ARGS = "Its entry args"
_MOST_SHOWN = 80
_LONGEST = 10**6


def stored_normalisation(file: Path) -> Normalisation | None:
    """Return the numbers in the config inside a checkpoint; None if it has none.

    They are in the order of RGB. Numbers up to 1 are shares of white, for images of PIL, as in
    MMSelfSup 0.x.

    Raises:
        ValueError: Numbers that are not finite, or a deviation that is not above 0.
    """
    own = _preprocessor(file)
    if own is None:
        return None

    source = f"the config in {file.name}"
    mean = tuple(map(float, own["mean"]))
    std = tuple(map(float, own["std"]))
    check_numbers(mean, std, source)
    if _has_shares(own):
        mean = tuple(WHITE * each for each in mean)
        std = tuple(WHITE * each for each in std)
    elif _takes_bgr(own):
        mean = mean[::-1]
        std = std[::-1]
    return Normalisation(mean, std, source)


def takes_bgr(file: Path) -> bool:
    """Whether a checkpoint is of BGR images, by the config in it."""
    own = _preprocessor(file)
    return own is not None and not _has_shares(own) and _takes_bgr(own)


def has_caffe_style(file: Path) -> bool:
    """Whether the description of a ResNet, or else the config in its file, has style 'caffe'.

    Its tensors have the same names and shapes, but its strides are in other convolutions.
    """
    description = find_description(file)
    if description is not None:
        return bool(read_description(description).model.backbone.get("style") == "caffe")
    # Options of the optimizer for the backbone have its name, too.
    backbones = [own for own in _dicts(_said(file)[0], ("backbone",)) if own.keys() & _OF_BACKBONE]
    return {str(own.get("style")) for own in backbones} == {"caffe"}


def training_record(file: Path) -> HubRecord | None:
    """Return what timm's training script wrote into a checkpoint; None if it is of another one."""
    _, options = _said(file)
    if not isinstance(options, Namespace) or not is_importable("timm"):
        return None
    import timm

    given = vars(options)
    name = str(given.get("model"))
    if not timm.is_model(name):
        return None
    record = {key: given.get(key) for key in ("mean", "std")}
    if not all(map(_are_colours, record.values())):
        return HubRecord(name[:_MOST_SHOWN], None, _ARGS)
    return HubRecord(name[:_MOST_SHOWN], record, _ARGS, f"the args in {file.name}")


def check_numbers(mean: Sequence[float], std: Sequence[float], source: str) -> None:
    """Raise ValueError for numbers that images cannot be normalised by."""
    if not all(map(math.isfinite, (*mean, *std))) or min(std) <= 0:
        raise UserValueError(
            f"mean and std of {source} must be finite and std above 0, but are {[*mean]} "
            f"and {[*std]}; correct them there."
        )


def _has_shares(preprocessor: dict[str, Any]) -> bool:
    """Whether its numbers are shares of white."""
    numbers = (*preprocessor["mean"], *preprocessor["std"])
    # Numbers 0 and 1 of such a preprocessor leave images of 0 to 255 as they are.
    return max(numbers) <= 1 and (any(preprocessor["mean"]) or not _takes_8bit(preprocessor))


def _takes_bgr(preprocessor: dict[str, Any]) -> bool:
    """Whether the config says so, or its preprocessor leaves the BGR of mmcv's reader."""
    flags = [preprocessor.get(key) for key in _IN_RGB]
    return not any(flags) and (False in flags or _kind(preprocessor) in _OF_BGR)


def _takes_8bit(preprocessor: dict[str, Any]) -> bool:
    """Whether the type or an option is OpenMMLab's, or the type is ours."""
    has_option = any(preprocessor.get(key) is not None for key in _IN_RGB)
    return has_option or _kind(preprocessor) in (*_OF_BGR, *_OURS)


def _kind(preprocessor: dict[str, Any]) -> str:
    """Return the name of its class."""
    return str(preprocessor.get("type")).rpartition(".")[2]


def _said(file: Path) -> tuple[str, Any]:
    """Return the config and the options in a checkpoint; '' and None if it has none."""
    return _read_said(file, file.stat().st_mtime_ns)


@functools.lru_cache(maxsize=4)
def _read_said(file: Path, changed_ns: int) -> tuple[str, Any]:
    content: Any = None
    if file.suffix != ".safetensors":  # holds nothing but tensors
        with suppress(UserError):  # who reads the weights reports it
            content = read_checkpoint(file, mmap=True)
    if not isinstance(content, dict):
        return "", None

    meta = dict.get(content, "meta")
    texts = [meta.get(key) for key in ("cfg", "config")] if isinstance(meta, dict) else []
    text = next((each for each in texts if isinstance(each, str)), "")
    return text if len(text) <= _LONGEST else "", dict.get(content, "args")


def _preprocessor(file: Path) -> dict[str, Any] | None:
    """Return the dict with three means and deviations in a checkpoint's config, if it is clear."""
    found = []
    for own in _dicts(_said(file)[0], _PREPROCESSORS):
        if _kind(own) in _OURS:
            own = {**_OUR_NUMBERS, **own}
        are_numbers = all(map(_are_colours, (own.get("mean"), own.get("std"))))
        if are_numbers and "pixels" not in own:
            found.append({key: own.get(key) for key in ("mean", "std", "type", *_IN_RGB)})
    is_clear = found and all(each == found[0] for each in found)
    return found[0] if is_clear else None


def _dicts(text: str, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the values of each ``dict(...)`` of these names in a config."""
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
            if name in names:
                yield _values(value)


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
