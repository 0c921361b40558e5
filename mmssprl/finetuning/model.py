"""A fine-tuned model with the weights of a checkpoint."""

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
    state = content.get("state_dict", content) if isinstance(content, dict) else {}
    faults = list_faults(state, model.state_dict(), ())
    if faults:
        raise UserValueError(
            f"the weights of {checkpoint} must fit the model of {cfg.filename}, but got {faults}; "
            "give a checkpoint of that run."
        )
    model.load_state_dict(state)
    model.to(get_device()).train(False)
    return model
