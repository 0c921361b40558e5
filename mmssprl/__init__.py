"""SS-PRL, self-supervised pyramid representation learning, for OpenMMLab.

The functions of the Python API are imported on first use, so that ``import mmssprl`` does not
import torch::

    import mmssprl

    weights = mmssprl.pretrain("photos/", backbone="resnet18", epochs=100)
    scores = mmssprl.probe(weights, "labelled/")
    found = mmssprl.embed(weights, "photos/")  # found.names, found.features
    model = mmssprl.load_backbone(weights)  # images (B, 3, H, W) to features (B, C)
    prepare = mmssprl.image_transform(model)  # a PIL image to its input

``help(mmssprl.pretrain)`` shows the arguments of a function.
"""

from typing import TYPE_CHECKING, Any

from ._api import PLACES, find
from ._dependencies import check_dependencies
from ._mmcv_operators import provide_operators
from .system.user_name import name_user
from .version import __version__ as __version__

if TYPE_CHECKING:
    from .features import image_transform as image_transform
    from .features import load_backbone as load_backbone
    from .finetuning.predict import predict as predict
    from .finetuning.start import finetune as finetune
    from .pretraining.options import PretrainOptions as PretrainOptions
    from .pretraining.start import pretrain as pretrain
    from .probing import probe as probe
    from .reporting import write_report as report  # noqa: F401
    from .search import embed as embed
    from .search import neighbors as neighbors
    from .search import read_embeddings as read_embeddings
    from .search import select as select
    from .weights import export_weights as export  # noqa: F401

__all__ = sorted(PLACES)


def __getattr__(name: str) -> Any:
    if name not in PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    check_dependencies()
    return find(name)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


name_user()
provide_operators()
