"""Published checkpoints, converted to the names and files of this package."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from torch import Tensor, nn

from .. import models
from ..config.reading import read_config_file
from ..config.shipped import shipped
from ..errors import UserValueError
from ..registry import MODELS, class_of
from ..system.outputs import prepare_output, whole_file
from .backbone import build_model, read_architecture
from .branches import Branch, read_branch
from .checkpoint_file import list_faults
from .description import write_description

RELEASED_CONFIG = "configs/ssprl/ssprl-released_resnet50_2xb64-coslr-200e_coco.py"
_PROTOTYPES = "ptypes.weight"
"""A tensor of released SS-PRL, and of no other project."""
_SSPRL_HEADS: tuple[tuple[str, str, int], ...] = (
    # Pattern, our name with the scale or level in braces, what is added to the number found.
    (r"projection_head\.", "neck.heads.0.", 0),
    (r"ptypes\.", "head.prototypes.0.", 0),
    (r"l_pro_head(\d+)\.", "neck.heads.{}.", 1),
    (r"local_ptypes(\d+)\.", "head.prototypes.{}.", 1),
    (r"l2g_ptypes(\d+)\.", "head.correlation.{}.", 0),
)
"""Heads of ``SSPRL``; its patch levels count from 0, and level i is our scale i + 1."""


@dataclass(frozen=True)
class ConvertReport:
    """What ``convert_weights`` found and did; dicts count tensors by part."""

    branch: Branch
    backbone: dict[str, Any]  # the ResNet's config as read off keys and shapes
    completed: dict[str, int]  # what the file lacks and was set afresh
    kept: dict[str, int]  # heads that were converted too
    config: str  # of the whole model, where there are heads
    weights: Path
    description: Path


def convert_weights(
    file: str | Path,
    out: str | Path | None = None,
    *,
    prefix: str | None = None,
    config: str | Path | None = None,
    overwrite: bool = False,
) -> ConvertReport:
    """Convert a published checkpoint, after a strict load into the network that it is for.

    The backbone is found as ``read_branch`` says, and becomes a plain state dict. Released SS-PRL
    becomes ``{'state_dict': ...}`` of the whole model, from which pre-training can start. Its
    queues are in other files: they start empty. ``<out stem>.json`` describes the network.

    Args:
        file: What ``torch.save`` or safetensors wrote, or detectron2's ``.pkl``.
        out: The ``.pth`` file to write; None takes ``default_out``.
        prefix: What the names of the tensors begin with; None finds it.
        config: Config of the whole model of released SS-PRL; None takes its recipe on COCO.
        overwrite: Replace ``out`` and the description beside it.
    """
    file, out = Path(file), Path(default_out(file) if out is None else out)
    beside = out.with_suffix(".json")
    if out.resolve() == file.resolve():
        raise UserValueError(
            f"the output must be another file than the input, but got {out}; give out, such as "
            "work_dirs/converted/NAME/NAME.pth."
        )
    prepare_output(out, ".pth", overwrite=overwrite)
    prepare_output(beside, overwrite=overwrite)
    branch = read_branch(file, prefix=prefix)
    tensors, told = (
        branch.tensors,
        "give another network to the commands as it is, with its --config.",
    )
    backbone = read_architecture(tensors, file, told)
    # SS-PRL and SwAV pad images by 1 before a conv1 of padding 2; ours has padding 3, the same.
    is_whole = _PROTOTYPES in branch.heads
    if is_whole:
        cfg = read_config_file(config or shipped(RELEASED_CONFIG))
        kind = class_of((cfg.get("model") or {}).get("type"), MODELS)
        if not (kind and issubclass(kind, models.SSPRL)):
            raise UserValueError(
                f"config must have model.type='SSPRL', but {config} has not; give one of "
                f"configs/ssprl, such as {RELEASED_CONFIG}."
            )
        heads = {_head_name(key): value for key, value in branch.heads.items()}
        tensors = {**{f"backbone.{key}": value for key, value in tensors.items()}, **heads}
        owner = str(cfg.filename)
        remedy = "give config, that of the network that was trained."
    elif config is not None:
        raise UserValueError(
            f"config is for released SS-PRL, but {file} has no {_PROTOTYPES}, and its ResNet tells "
            "itself; leave config out."
        )
    else:
        cfg = Config({"model": {"backbone": backbone}})
        owner = f"mmpretrain's ResNet-{backbone['depth']}"
        remedy = "download the file again, or pass one that holds a plain ResNet."
    # What the file does not fill, such as a seed, is always the same.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = build_model(cfg.model if is_whole else backbone)
    completed = _fill(model, tensors, f"{file} must fit {owner}", remedy)
    # Training runs channels-last; readers expect torch's default layout.
    filled = {key: value.contiguous() for key, value in model.state_dict().items()}
    write_description(out, cfg)
    with whole_file(out, "wb") as weights:
        torch.save({"state_dict": filled} if is_whole else filled, weights)
    kept = _count(_part(key) for key in tensors if is_whole and not key.startswith("backbone."))
    chosen = str(config or RELEASED_CONFIG) if is_whole else ""
    return ConvertReport(branch, backbone, completed, kept, chosen, out, beside)


def default_out(file: str | Path) -> Path:
    """Name the output: a folder of its own, with its description beside it."""
    name = re.sub(r"(\.(tar|pth|pt|pkl|bin|safetensors))+$", "", Path(file).name)
    stem = re.sub(r"[^\w-]", "_", name)
    return Path("work_dirs/converted") / stem / f"{stem}.pth"


def _head_name(key: str) -> str:
    """Give our name of a head of released SS-PRL; an unknown one stays as it is."""
    for pattern, ours, shift in _SSPRL_HEADS:
        if found := re.match(pattern, key):
            numbers = [int(number) + shift for number in found.groups()]
            return ours.format(*numbers) + key[found.end() :]
    return key


def _fill(
    model: nn.Module, tensors: Mapping[str, Tensor], requirement: str, remedy: str
) -> dict[str, int]:
    """Load tensors, and count by part what they lack: counters, queues and seeds, which stay."""
    expected = model.state_dict()
    statistics = ("running_mean", "running_var")
    fresh = {name for name, _ in model.named_buffers() if not name.endswith(statistics)}
    fresh |= {name for name in expected if name.endswith("_extra_state")}  # counters and seeds
    absent = [key for key in expected if key not in tensors]
    faults = list_faults(tensors, expected, fresh)
    if faults:
        raise UserValueError(f"every tensor of {requirement}, but got {faults}; {remedy}")
    model.load_state_dict({**{key: expected[key] for key in absent}, **tensors})
    counter = "num_batches_tracked"
    return _count(counter if key.endswith(counter) else _part(key) for key in absent)


def _part(key: str) -> str:
    return ".".join(key.split(".")[:2])


def _count(names: Iterable[str]) -> dict[str, int]:
    return dict(Counter(names))
