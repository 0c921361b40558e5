"""Convert published checkpoints to the names and files of this package."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from mmengine.logging import print_log
from torch import Tensor, nn

from .. import models
from ..config.reading import read_config_file
from ..config.shipped import shipped
from ..errors import UserValueError
from ..pixels import Normalisation
from ..registry import MODELS, class_of
from ..system.outputs import prepare_output, whole_file
from .backbone import build_model, read_architecture
from .checkpoint_file import list_faults
from .checkpoint_prefixes import StoredNetwork, find_network
from .description import (
    find_description,
    read_description,
    refuse_other_json,
    write_description,
)
from .normalisation import find_normalisation
from .stored_config import stored_normalisation, takes_bgr

RELEASED_CONFIG = "configs/ssprl/ssprl-released_resnet50_2xb64-coslr-200e_coco.py"
_INPUT = "conv1.weight"
_PROTOTYPES = "ptypes.weight"
"""A tensor that only released SS-PRL has."""
_SSPRL_HEADS: tuple[tuple[str, str, int], ...] = (
    # Pattern, our name with the scale or level in braces, offset from their number to ours.
    (r"projection_head\.", "neck.heads.0.", 0),
    (r"ptypes\.", "head.prototypes.0.", 0),
    (r"l_pro_head(\d+)\.", "neck.heads.{}.", 1),
    (r"local_ptypes(\d+)\.", "head.prototypes.{}.", 1),
    (r"l2g_ptypes(\d+)\.", "head.correlation.{}.", 0),
)
"""Names of the heads of released SS-PRL. Its patch level i is our scale i + 1."""


@dataclass(frozen=True)
class ConvertReport:
    """Result of ``convert_weights``; dicts count tensors by part."""

    network: StoredNetwork
    backbone: dict[str, Any]  # config of the ResNet, from its keys and shapes
    completed: dict[str, int]  # tensors that the file lacks, initialised as in a new model
    kept: dict[str, int]  # converted heads
    config: str  # of the whole model; "" without heads
    weights: Path


def convert_weights(
    file: str | Path,
    out: str | Path | None = None,
    *,
    prefix: str | None = None,
    config: str | Path | None = None,
    overwrite: bool = False,
) -> ConvertReport:
    """Convert a published checkpoint, after a strict load into its network.

    The backbone, found by ``find_network`` or under ``prefix``, becomes a plain state dict.
    Released SS-PRL becomes ``{'state_dict': ...}`` of the whole model, from which pre-training can
    start; its ``config`` is by default the recipe on COCO. Its queues start empty, because they are
    in other files. ``<out stem>.json`` describes the network.
    """
    file = Path(file)
    out = Path(default_out(file) if out is None else out)
    if out.resolve() == file.resolve():
        raise UserValueError(
            f"the output must not be the input file, {out}; give another path, such as "
            "work_dirs/converted/NAME/NAME.pth."
        )
    prepare_output(out, ".pth", overwrite=overwrite)
    refuse_other_json(prepare_output(out.with_suffix(".json"), overwrite=overwrite))

    network = find_network(file, prefix=prefix)
    remedy = "use other networks without converting them, with their --config."
    backbone = read_architecture(network.tensors, file, remedy)
    is_whole = _PROTOTYPES in network.heads
    if config is not None and not is_whole:
        raise UserValueError(
            f"config is for released SS-PRL, but {file} has no {_PROTOTYPES}; leave config out."
        )

    heads: dict[str, Tensor] = {}
    tensors = network.tensors
    if is_whole:
        cfg = _config_of_ssprl(config)
        heads = {_head_name(key): value for key, value in network.heads.items()}
        tensors = {**{f"backbone.{key}": value for key, value in tensors.items()}, **heads}
        model = _build(cfg.model)
        misfit = f"{file} does not fit {cfg.filename}"
        remedy = "give the config that it was trained with."
    else:
        cfg = _config_of_file(file, backbone)
        tensors = _in_rgb(tensors, file)
        model = _build(backbone)
        misfit = f"{file} does not fit mmpretrain's ResNet-{backbone['depth']}"
        remedy = "download the file again, or pass one that holds a plain ResNet."
    # SS-PRL and SwAV pad images by 1 before a conv1 with padding 2; our padding of 3 is the same.
    completed = _fill(model, tensors, misfit, remedy)

    # Training runs channels-last; readers expect torch's default layout.
    filled = {key: value.contiguous() for key, value in model.state_dict().items()}
    write_description(out, cfg)
    with whole_file(out, "wb") as weights:
        torch.save({"state_dict": filled} if is_whole else filled, weights)
    kept = dict(Counter(map(_part, heads)))
    chosen = str(config or RELEASED_CONFIG) if is_whole else ""
    return ConvertReport(network, backbone, completed, kept, chosen, out)


def _in_rgb(tensors: dict[str, Tensor], file: Path) -> dict[str, Tensor]:
    """Reverse the first convolution of a ResNet for BGR images, and say so."""
    if _INPUT not in tensors or not takes_bgr(file):
        return tensors
    print_log(f"{file.name}: the input channels of {_INPUT} are reversed, from BGR to RGB.")
    return {**tensors, _INPUT: tensors[_INPUT].flip(1)}


def _config_of_file(file: Path, backbone: dict[str, Any]) -> Config:
    """Return the config of a backbone, with the numbers and image size of a file of ours."""
    description = find_description(file)
    described = Config({"model": {}})
    own = None
    if description is None:
        own = stored_normalisation(file)  # without a warning of BGR, which ``_in_rgb`` reverses
    else:
        described = read_description(description)

    own = own or find_normalisation(str(file), backbone)
    if description is None or not own.equals(Normalisation.of_config(described)):
        pixels = {"pixels": own.pixels._asdict()} if own.pixels else {}
        described.model.data_preprocessor = {**own.numbers, **pixels}
    described.model.backbone = backbone
    return described


def _config_of_ssprl(config: str | Path | None) -> Config:
    """Read the config of a whole model, by default the released recipe."""
    cfg = read_config_file(config or shipped(RELEASED_CONFIG))
    kind = class_of((cfg.get("model") or {}).get("type"), MODELS)
    if not (kind and issubclass(kind, models.SSPRL)):
        raise UserValueError(
            f"config must have model.type='SSPRL', but {config} does not; give one from "
            f"configs/ssprl, such as {RELEASED_CONFIG}."
        )
    return cfg


def _build(spec: Mapping[str, Any]) -> nn.Module:
    """Build a model by a fixed seed: tensors that a file lacks are the same in each conversion."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return build_model(spec)


def default_out(file: str | Path) -> Path:
    """Return ``work_dirs/converted/NAME/NAME.pth``."""
    name = re.sub(r"(\.(tar|pth|pt|pkl|bin|safetensors))+$", "", Path(file).name)
    stem = re.sub(r"[^\w-]", "_", name)
    return Path("work_dirs/converted") / stem / f"{stem}.pth"


def _head_name(key: str) -> str:
    """Return our name of a head of released SS-PRL; other names are returned unchanged."""
    for pattern, ours, shift in _SSPRL_HEADS:
        if found := re.match(pattern, key):
            numbers = [int(number) + shift for number in found.groups()]
            return ours.format(*numbers) + key[found.end() :]
    return key


def _fill(
    model: nn.Module, tensors: Mapping[str, Tensor], misfit: str, remedy: str
) -> dict[str, int]:
    """Load tensors and count by part those that are missing: counters, queues and seeds."""
    expected = model.state_dict()
    statistics = ("running_mean", "running_var")
    optional = {name for name, _ in model.named_buffers() if not name.endswith(statistics)}
    optional |= {name for name in expected if name.endswith("_extra_state")}  # counters and seeds
    if faults := list_faults(tensors, expected, optional):
        raise UserValueError(f"{misfit}: {faults}; {remedy}")
    absent = {key: value for key, value in expected.items() if key not in tensors}
    model.load_state_dict({**absent, **tensors})
    counter = "num_batches_tracked"
    return dict(Counter(counter if key.endswith(counter) else _part(key) for key in absent))


def _part(key: str) -> str:
    return ".".join(key.split(".")[:2])
