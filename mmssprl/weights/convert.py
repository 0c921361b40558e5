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
from .checkpoint_file import list_faults, read_state
from .description import write_description
from .key_tables import SSPRL, KeyTable, find_key_table, ssprl_name

RELEASED_CONFIG = "configs/ssprl/ssprl-released_resnet50_2xb64-coslr-200e_coco.py"

_STEP_COUNTER = "num_batches_tracked"


@dataclass(frozen=True)
class ConvertReport:
    """What ``convert_weights`` found, did and left out; dicts count tensors by part."""

    key_table: KeyTable
    backbone: dict[str, Any]  # the ResNet's config as read off keys and shapes
    num_read: int
    num_backbone: int
    completed: dict[str, int]  # what the file lacks and was set afresh
    kept: dict[str, int]  # heads that were converted too
    left_out: dict[str, int]  # by the parts of the source's network
    weights: Path
    description: Path


def convert_weights(
    file: str | Path,
    source: str,
    out: str | Path | None = None,
    *,
    config: str | Path | None = None,
    overwrite: bool = False,
) -> ConvertReport:
    """Convert a published checkpoint, after a strict load into the network that it is for.

    Released SS-PRL becomes ``{'state_dict': ...}`` of the whole model, from which pre-training can
    go on; any other becomes the backbone's plain state dict. ``<out stem>.json`` beside it
    describes the network.

    Args:
        file: What ``torch.save`` or safetensors wrote, or detectron2's ``.pkl``.
        source: Key of ``SOURCES``; ``'auto'`` decides by the keys.
        out: The ``.pth`` file to write; None takes ``default_out``.
        config: Config of the whole model of released SS-PRL; None takes its recipe on COCO.
        overwrite: Replace ``out`` and the description beside it.
    """
    file, out = Path(file), Path(out or default_out(file))
    beside = out.with_suffix(".json")
    if out.suffix != ".pth" or out.resolve() == file.resolve():
        raise UserValueError(
            f"the output must be another file than the input and end in .pth, but got {out}; "
            "give out, such as work_dirs/converted/NAME/NAME.pth."
        )
    for path in (out, beside):
        prepare_output(path, overwrite=overwrite)
    state = read_state(file)
    table = find_key_table(state, source, file=str(file))
    names = {key: name for key in state if (name := table.trunk_name(key))}
    trunk = {name: state[key] for key, name in names.items()}
    backbone = read_architecture(trunk, file)
    if table is SSPRL:
        cfg = _read_config(config or shipped(RELEASED_CONFIG))
        tensors = {ssprl_name(key): value for key, value in state.items()}
        owner = str(cfg.filename)
        remedy = "give config, that of the network that was trained."
    else:
        if config is not None:
            raise UserValueError(
                f"config is for checkpoints with the keys of {SSPRL.name}, but {file} has those "
                f"of {table.name}, which tell the backbone themselves; leave config out."
            )
        cfg = Config({"model": {"backbone": backbone}})
        tensors = trunk
        owner = f"mmpretrain's ResNet-{backbone['depth']}"
        remedy = "download the file again, or pass one that holds a plain ResNet."
    # What the file does not fill, such as a seed, is always the same.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = build_model(cfg.model if table is SSPRL else backbone)
    completed = _fill(model, tensors, f"{file} must fit {owner}", remedy)
    # Training runs channels-last; readers expect torch's default layout.
    filled = {key: value.contiguous() for key, value in model.state_dict().items()}
    write_description(out, cfg, method=table.name)
    with whole_file(out, "wb") as weights:
        torch.save({"state_dict": filled} if table is SSPRL else filled, weights)
    heads = tensors if table is SSPRL else {}
    return ConvertReport(
        key_table=table,
        backbone=backbone,
        num_read=len(state),
        num_backbone=len(trunk),
        completed=completed,
        kept=_count(_part(key) for key in heads if not key.startswith("backbone.")),
        left_out={}
        if table is SSPRL
        else _count(table.group(key) for key in state if key not in names),
        weights=out,
        description=beside,
    )


def default_out(file: str | Path) -> Path:
    """Name the output: a folder of its own, with its description beside it."""
    name = re.sub(r"(\.(tar|pth|pt|pkl|bin|safetensors))+$", "", Path(file).name)
    stem = re.sub(r"[^\w-]", "_", name)
    return Path("work_dirs/converted") / stem / f"{stem}.pth"


def _read_config(path: str | Path) -> Config:
    cfg = read_config_file(path)
    kind = class_of((cfg.get("model") or {}).get("type"), MODELS)
    if not (kind and issubclass(kind, models.SSPRL)):
        raise UserValueError(
            f"the config of the whole model must have model.type='SSPRL', but {path} has not; "
            f"pass one of configs/ssprl, such as {RELEASED_CONFIG}."
        )
    return cfg


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
    return _count(_STEP_COUNTER if key.endswith(_STEP_COUNTER) else _part(key) for key in absent)


def _part(key: str) -> str:
    return ".".join(key.split(".")[:2])


def _count(names: Iterable[str]) -> dict[str, int]:
    return dict(Counter(names))
