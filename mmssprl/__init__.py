"""SS-PRL, self-supervised pyramid representation learning, for OpenMMLab.

The functions of the Python API are imported when they are first asked for, so that ``import
mmssprl`` takes no torch along::

    import mmssprl

    weights = mmssprl.pretrain("photos/", backbone="resnet18", epochs=100)
    found = mmssprl.embed(weights, "photos/")  # found.names, found.features
    model = mmssprl.load_backbone(weights)  # images (B, 3, H, W) to features (B, C)
    prepare = mmssprl.image_transform(model)  # a PIL image to its input
"""

import importlib
import os
from typing import TYPE_CHECKING, Any

from ._dependencies import check_dependencies
from ._mmcv_operators import provide_operators
from .system.stopping import PARENT, end_with_parent
from .version import __version__ as __version__

if TYPE_CHECKING:
    from .features import embed, image_transform, load_backbone, read_embeddings
    from .pretraining.start import pretrain

__all__ = ["embed", "image_transform", "load_backbone", "pretrain", "read_embeddings"]

_PLACES = {
    "embed": (".features", "embed"),
    "image_transform": (".features", "image_transform"),
    "load_backbone": (".features", "load_backbone"),
    "pretrain": (".pretraining.start", "pretrain"),
    "read_embeddings": (".features", "read_embeddings"),
}
"""Module and name of each function of the API."""


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    check_dependencies()
    module, attribute = _PLACES[name]
    return getattr(importlib.import_module(module, __name__), attribute)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


if PARENT in os.environ:  # which is not for what this process starts
    end_with_parent(int(os.environ.pop(PARENT)))
# Idle threads let others compute: beside six busy processes on two cores, those that spin took more
# than four times the CPU time. OpenMP reads this when torch is loaded, which nothing above does.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
provide_operators()
