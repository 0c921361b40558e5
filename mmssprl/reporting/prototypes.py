"""The prototypes of a training checkpoint, and how near features are to them.

Legend: N rows, C features, K prototypes of a scale.
"""

from pathlib import Path

import numpy as np
import torch
from mmengine.config import Config
from numpy.typing import NDArray
from torch import Tensor

from ..config.build_errors import explain_build_errors
from ..errors import UserValueError
from ..models import SSPRL, pretraining_class
from ..weights import check_fit
from ..weights.backbone import build_model
from ..weights.branches import require_finite
from ..weights.checkpoint_file import read_state


def has_prototypes(cfg: Config) -> bool:
    """Whether a config trains SS-PRL or SwAV."""
    kind = pretraining_class(cfg)
    return kind is not None and issubclass(kind, SSPRL)


def load_prototypes(checkpoint: str | Path, cfg: Config) -> SSPRL:
    """Return the model of a training checkpoint, in eval mode, with all but its queues."""
    if not has_prototypes(cfg):
        raise UserValueError(
            "only SS-PRL and SwAV have prototypes, but the run of "
            f"{cfg.filename} trains {cfg.model.get('type')}; give the work dir of such a run."
        )
    with explain_build_errors(cfg):
        model: SSPRL = build_model(cfg.model.to_dict())
    parts = ("backbone.", "neck.", "head.prototypes.", "head.correlation.")
    saved = {k.removeprefix("state_dict."): v for k, v in read_state(checkpoint).items()}
    own, state = (
        {name: value for name, value in each.items() if name.startswith(parts)}
        for each in (model.state_dict(), saved)
    )
    require_finite(state, checkpoint)
    remedy = "keep a run's config next to its checkpoints."
    check_fit(state, own, weights=str(checkpoint), owner=str(cfg.filename), remedy=remedy)
    model.load_state_dict(state, strict=False)
    model.eval()
    return model


@torch.no_grad()
def prototype_cosines(model: SSPRL, features: NDArray[np.float32], scale: int) -> Tensor:
    """Return the cosines (N, K) of features (N, C) and the prototypes of a scale."""
    z = model.neck.heads[scale](torch.from_numpy(features)).float()
    return model.head.prototypes[scale](torch.nn.functional.normalize(z, dim=-1))
