"""``NAME.json`` next to weights ``NAME.pth`` describes the network and its training images."""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import torch
from mmengine.config import Config

from ..console.wording import program
from ..errors import UserFileExistsError, UserValueError
from ..models.timm_backbone import fixed_px_of
from ..pixels import RGB, Normalisation, Pixels
from ..pyramid import ViewLayout
from ..registry import MODELS, class_of, names_in, registered_name
from ..system.outputs import write_whole
from ..system.trusted_modules import is_named, named_modules
from ..version import __version__
from .sources import Source

USUAL_PX = 224
"""Side of the images of a network that says no other."""
_CHECKPOINT = re.compile(r"(best_.+_)?(epoch|iter|step)_\d+\.pth")
_IN_HUB = re.compile(r"models--timm--([\w.-]+)")
"""A folder in the cache of the hub of Hugging Face."""
_OPEN_CLIP = "open_clip_config.json"
_OF_HUB = {
    "model.safetensors": "config.json",
    "pytorch_model.bin": "config.json",
    "open_clip_model.safetensors": _OPEN_CLIP,
    "open_clip_pytorch_model.bin": _OPEN_CLIP,
}
"""Files of timm and open_clip on the hub, and what describes them."""
_MOST_SHOWN = 80


def describe(cfg: Config) -> dict[str, Any]:
    """Return the description of weights that were trained with a config."""
    model = cfg.model
    own = Normalisation.of_config(cfg)
    layout = model.get("layout") or cfg.get("layout")
    method = model.get("type") or cfg.get("method", "")
    return {
        "backbone": _named({k: v for k, v in model.backbone.to_dict().items() if k != "init_cfg"}),
        "pixels": {**(own.pixels or RGB)._asdict(), **own.numbers},
        "image_px": ViewLayout.build(layout).image_px if layout else _built_for(model.backbone),
        "method": str(getattr(method, "__name__", method)),
        "versions": {"mmssprl": __version__, "torch": torch.__version__},
    }


def _named(part: Any) -> Any:
    """Return a part of a config with registered names, which ``_checked`` reads, as types."""
    if isinstance(part, list | tuple):
        return [_named(each) for each in part]
    if not isinstance(part, dict):
        return part

    named = {key: _named(value) for key, value in part.items()}
    if "type" in part:
        named["type"] = registered_name(part["type"], MODELS)
    return named


def _built_for(backbone: Mapping[str, Any]) -> int:
    """Return the side of the images that a network names, or the one that it takes, or 224."""
    options = backbone.get("options") or {}
    px = backbone.get("img_size") or options.get("img_size")
    if px is None and "model_name" in backbone:
        px = fixed_px_of(backbone["model_name"], options)
    return px if isinstance(px, int) else USUAL_PX


def write_description(weights: Path, cfg: Config) -> Path:
    """Write the description of ``weights`` that were trained with a config; return its path."""
    path = weights.with_suffix(".json")
    write_whole(path, json.dumps(describe(cfg), indent=2, default=str) + "\n")
    return path


def channels_of(cfg: Config) -> int:
    """Return the number of channels of the images that a config's backbone was trained on."""
    return (Pixels.build(cfg) or RGB).channels


def modules_of(backbone: Mapping[str, Any]) -> list[str]:
    """Return the modules that commands need by ``--import`` to build a backbone from its config.

    Only modules that the user named here are returned.
    """
    kind = class_of(backbone["type"], MODELS)
    defined_in = "" if kind is None else f"{kind.__module__}."
    function = Source.of(backbone.get("network")).function
    needed = (defined_in, f"{function.partition(':')[0]}.")
    return [name for name in named_modules if any(x.startswith(f"{name}.") for x in needed)]


def find_description(weights: Path) -> Path | None:
    """Return the description of weights, or of the training that wrote the checkpoint.

    It is next to the file or, if that is a link, next to the file that the link names.
    """
    for file in (weights, weights.resolve()):
        own = file.with_suffix(".json")
        if own.is_file() and _may_be_ours(own):
            return own
        # Other files may be next to the weights of another network.
        if _CHECKPOINT.fullmatch(file.name):
            found = min(file.parent.glob("*_backbone.json"), default=None)
            if found is not None:
                return found
    return None


def _may_be_ours(path: Path) -> bool:
    """Whether a file can be a description, maybe a damaged one, and not JSON of another tool."""
    try:
        # The first value alone, because other tools write one a line.
        content, _ = json.JSONDecoder().raw_decode(path.read_text("utf-8").lstrip())
    except (OSError, ValueError, RecursionError):
        return True
    return isinstance(content, dict) and {"backbone", "pixels"} <= content.keys()


def refuse_other_json(path: Path) -> None:
    """Raise FileExistsError if the place of a description has JSON of another tool, such as labels.

    Nothing may replace it: who asks to overwrite weights does not think of it.
    """
    if path.is_file() and not _may_be_ours(path):
        raise UserFileExistsError(
            f"{path} is the place of the description of the weights, but holds JSON of something "
            "else; give another --out."
        )


class HubRecord(NamedTuple):
    """What the hub of Hugging Face, or timm's own training, says of a file."""

    name: str  # timm's, with the tag of the weights where it is said
    record: Mapping[str, Any] | None  # with mean and std
    source: str  # who says it, as the subject of a sentence
    training: str = ""  # what the numbers are of, '' for timm's own

    @property
    def network(self) -> str:
        """timm's name of the network without a tag."""
        return self.name.partition(".")[0]


def find_hub_record(file: Path) -> HubRecord | None:
    """Return what the config next to a file says, or else its folder in the hub's cache."""
    files = (file, file.resolve())
    for path in (each.with_name(_OF_HUB[each.name]) for each in files if each.name in _OF_HUB):
        if path.is_file():
            with suppress(ValueError, TypeError, KeyError, AttributeError):  # of something else
                return _record_in(path)
    found = next(filter(None, (_IN_HUB.search(str(each)) for each in files)), None)
    return HubRecord(found[1], None, "Its folder") if found else None


def _record_in(path: Path) -> HubRecord:
    """Read a config of timm or of open_clip; KeyError and others if it is of something else."""
    content = json.loads(path.read_text("utf-8"))
    if path.name == _OPEN_CLIP:
        name = str(content["model_cfg"]["vision_cfg"]["timm_model_name"])
        return HubRecord(name[:_MOST_SHOWN], content["preprocess_cfg"], path.name)
    record = content.get("pretrained_cfg", content)
    tag = record.get("tag")
    name = f"{content['architecture']}.{tag}" if tag else str(content["architecture"])
    return HubRecord(name[:_MOST_SHOWN], record, path.name)


def named_by_place(file: Path) -> str:
    """Return a sentence on what is written next to a file of its network, or ''.

    It is ours, or of the hub.
    """
    own = find_description(file)
    if own is None:
        record = find_hub_record(file)
        return f"{record.source} says timm/{record.name}." if record else ""
    try:
        backbone = json.loads(own.read_text("utf-8"))["backbone"]
    except (ValueError, TypeError, KeyError):  # a file of something else
        return ""
    return f"{own.name} says {backbone!s:.{_MOST_SHOWN}}."


class _UnnamedModuleError(UserValueError):
    """A description names a network of a module that the user has not named."""


def read_description(path: Path) -> Config:
    """Read a description as the config of a model; ValueError for another or a damaged file.

    A ``type`` that is not registered is refused, because mmengine would import it.
    """
    try:
        content = json.loads(path.read_text("utf-8"))
        backbone = _checked(content["backbone"])
        pixels = dict(content["pixels"])
        numbers = {key: pixels.pop(key) for key in ("mean", "std")}
        layout = {"image_px": content["image_px"], "levels": []}
        ViewLayout.build(layout)
        method = str(content.get("method", ""))
        own = None if Pixels(**pixels) == RGB else pixels
    except _UnnamedModuleError as error:
        raise UserValueError(f"{path}: {error}.") from error
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        reason = str(error) if isinstance(error, UserValueError) else type(error).__name__
        raise UserValueError(
            f"{path} is not a description of weights ({reason}). Delete it, or give their config "
            "by --config."
        ) from error

    preprocessor = {**numbers, **({"pixels": own} if own else {})}
    model = {"backbone": backbone, "data_preprocessor": preprocessor, "layout": layout}
    return Config({"model": model, "method": method}, filename=str(path))


def _checked(part: Any) -> Any:
    """Return a part of a config with tuples for lists; ValueError if it would import a module."""
    if isinstance(part, list):
        return tuple(map(_checked, part))
    if not isinstance(part, dict):
        return part

    checked = {key: _checked(value) for key, value in part.items()}
    scope, _, name = str(part.get("type", "ResNet")).rpartition(".")
    package, is_path, _ = scope.partition(".")
    if package not in ("", "mmssprl", "mmpretrain") or name not in names_in(MODELS):
        raise UserValueError(f"there is no type {part['type']!r:.80}")
    if is_path:  # of a class, as earlier versions wrote it
        checked["type"] = name

    module, colon, _ = str(part.get("network")).partition(":")
    if colon and not is_named(module):
        name = module[:80]
        typed = name if re.fullmatch(r"[\w.]+", name) else "MODULE"
        raise _UnnamedModuleError(
            f"its network is of the module {name!r}, which is imported only if you name it; begin "
            f"the command with `{program()} --import {typed}`, or import it"
        )
    return checked
