"""A fine-tuned model with the weights of a checkpoint."""

from itertools import zip_longest
from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmengine.device import get_device

from ..config.build_errors import explain_build_errors
from ..console.quiet import import_quietly
from ..errors import UserValueError
from ..weights import read_checkpoint
from ..weights.backbone import build_model
from ..weights.checkpoint_file import list_faults
from .config import require_package


def load_model(cfg: Config, checkpoint: str | Path) -> Any:
    """Build the model of a config of ``finetune`` with its weights, on the default device."""
    scope = cfg.default_scope
    require_package(scope, str(cfg.filename))
    import_quietly(f"{'mmpretrain' if scope == 'mmssprl' else scope}.datasets")
    with explain_build_errors(cfg):
        model = build_model(cfg.model, scope=scope)
    content = read_checkpoint(checkpoint)
    content = content if isinstance(content, dict) else {}
    _refuse_other_classes(content, cfg, checkpoint)
    state = content.get("state_dict", content)
    faults = list_faults(state, model.state_dict(), ())
    if faults:
        raise UserValueError(
            f"the weights of {checkpoint} must fit the model of {cfg.filename}, but got {faults}; "
            "give a checkpoint of that run."
        )
    model.load_state_dict(state)
    model.to(get_device()).train(False)
    return model


def _refuse_other_classes(content: dict[str, Any], cfg: Config, checkpoint: str | Path) -> None:
    """Raise ValueError if a checkpoint names other classes than the config of its folder.

    Weights of as many classes in another order fit the model, and all names would be wrong.
    """
    about = content.get("meta")
    meta = about.get("dataset_meta") if isinstance(about, dict) else None
    trained = (meta.get("classes") if isinstance(meta, dict) else None) or []
    own = cfg.finetuning.classes
    pairs = enumerate(zip_longest(trained, own))
    others = [(index, *pair) for index, pair in pairs if pair[0] != pair[1]]
    if trained and others:
        index, there, here = others[0]
        raise UserValueError(
            f"{checkpoint} was trained with other classes than {cfg.filename} names: class {index} "
            f"is {there!r} there and {here!r} here; give a checkpoint in the folder of its run."
        )
