"""What prototypes stand for: the images and patches nearest to them, as in the paper's figure.

Legend: N images, C features, M_s crops and K_s prototypes of scale s, px side of a crop.
"""

from pathlib import Path
from typing import NamedTuple

import matplotlib
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from mmengine.config import Config
from numpy.typing import NDArray
from torch import Tensor

from ..config.build_errors import explain_build_errors
from ..config.found_config import require
from ..console.style import INK, PYRAMIDS, RC, titled_figure
from ..datasets import UnlabeledImages
from ..datasets.subset import choose_subset
from ..errors import UserValueError
from ..features.backbone import Crops, FeatureBackbone
from ..features.embedding import embed_images
from ..features.extract import FeatureOptions, Images
from ..models import SSPRL, pretraining_class
from ..registry import DATASETS
from ..saving.work_dir import require_newest
from ..weights import config_beside
from ..weights.backbone import build_model
from ..weights.checkpoint_file import check_fit, read_state

NUM_PROTOTYPES, NUM_IMAGES, NUM_PATCHES = 6, 5, 3
"""Rows; images in each; prototypes of a level in each, with a patch."""
MAX_IMAGES = 1000
"""So many are looked at, of more ones a fixed random part."""
_BATCH = 16
_CELL_INCHES = 1.05


class PrototypeRow(NamedTuple):
    """An image prototype, the share of the images that choose it, and the nearest of them.

    ``images`` are uint8 (n, px, px, 3). For each level, ``patches`` holds triples of a patch
    prototype's number, the share of these images' patches that choose it, and the patch nearest to
    it, uint8 (px, px, 3).
    """

    number: int
    share: float
    images: NDArray[np.uint8]
    patches: list[list[tuple[int, float, NDArray[np.uint8]]]]


def draw_prototypes(
    work_dir: str | Path,
    images: str | Path | UnlabeledImages | None = None,
    *,
    progress: bool = True,
) -> Figure:
    """Draw the image prototypes that most images choose, with their images and patches.

    An image or patch chooses the prototype with the greatest cosine. On the right stand, for each
    level, the patch prototypes that the patches of the row's images choose most often, each with
    the patch nearest to it.

    Args:
        work_dir: Folder of the run, with its config and newest training checkpoint.
        images: Folder of images or a tar file, or the images themselves; None takes those that the
            run trains on.
        progress: Whether to draw a progress bar, if there is a terminal.
    """
    checkpoint = require_newest(work_dir)
    cfg = config_beside(str(checkpoint))
    model = _load(cfg, checkpoint)
    rows = find_prototypes(model, run_images(cfg, images), progress=progress)
    num_levels = len(model.layout.levels)
    columns = NUM_IMAGES + num_levels * NUM_PATCHES
    with matplotlib.rc_context({**RC, "axes.grid": False}):
        figure = titled_figure(
            (columns + 1.2) * _CELL_INCHES,
            len(rows) * (_CELL_INCHES + 0.25) + 0.7,
            f"{Path(cfg.filename).stem}: prototypes of the image, the images nearest to them, and "
            "what these images' patches choose",
        )
        grid = figure.subplots(len(rows), columns, squeeze=False)
        for row, axes in zip(rows, grid, strict=True):
            for place in axes:
                place.axis("off")
            for place, image in zip(axes, row.images, strict=False):
                place.imshow(image)
            _caption(axes[0], f"prototype {row.number}: {row.share:.0%} of the images", INK)
            for level, found in enumerate(row.patches):
                first = NUM_IMAGES + level * NUM_PATCHES
                for place, (number, share, patch) in zip(axes[first:], found, strict=False):
                    place.imshow(patch)
                    _caption(place, f"{level + 1}.{number}: {share:.0%}", PYRAMIDS[level % 2])
    return figure


@torch.no_grad()
def find_prototypes(
    model: SSPRL, dataset: UnlabeledImages, *, progress: bool = True
) -> list[PrototypeRow]:
    """Return the image prototypes that most of the readable images choose; on the CPU."""
    layout, preprocessor = model.layout, model.data_preprocessor
    sample = dataset.get_subset(
        choose_subset(range(len(dataset)), min(1.0, MAX_IMAGES / len(dataset)))
    )
    backbone = FeatureBackbone(
        model.backbone, layout=layout, mean=preprocessor.mean, std=preprocessor.std
    )
    options = FeatureOptions(batch_size=_BATCH, device="cpu", progress=progress)
    embeddings = embed_images(backbone, Images(sample), options, patches=bool(layout.levels))
    readable = embeddings.of_scale(0).names
    all_cosines = []  # each (N, M_s, K_s)
    for s in range(layout.num_scales):
        features = torch.from_numpy(embeddings.of_scale(s).features)  # (N M_s, C)
        z = model.neck.heads[s](features).float()
        scores = model.head.prototypes[s](torch.nn.functional.normalize(z, dim=-1))
        all_cosines.append(scores.unflatten(0, (len(readable), -1)))
    crops, names = Crops(layout.image_px, layout.levels), list(sample.names)

    def show(row: int, scale: int, cell: int) -> NDArray[np.uint8]:
        cut = crops.cut(sample.load_image(names.index(readable[row])))
        return cut[scale][cell].permute(1, 2, 0).numpy()  # (px, px, 3)

    choice = all_cosines[0][:, 0].argmax(dim=1)
    rows = []
    for k, share in _most_chosen(choice, NUM_PROTOTYPES):
        mine = (choice == k).nonzero()[:, 0]
        order = all_cosines[0][mine, 0, k].argsort(descending=True, stable=True)
        nearest = mine[order].tolist()
        rows.append(
            PrototypeRow(
                k,
                share,
                np.stack([show(row, 0, 0) for row in nearest[:NUM_IMAGES]]),
                [
                    [(n, share, show(row, s, m)) for n, share, row, m in _level(own, nearest)]
                    for s, own in enumerate(all_cosines[1:], 1)
                ],
            )
        )
    return rows


def _level(cosines: Tensor, images: list[int]) -> list[tuple[int, float, int, int]]:
    """Return number and share of the prototypes that patches of some images choose most often.

    With them come image and cell of the patch nearest to each. ``cosines`` are (N, M_s, K_s).
    """
    own = cosines[images]  # (n, M_s, K_s)
    found = []
    for k, share in _most_chosen(own.argmax(dim=2), NUM_PATCHES):
        image, cell = divmod(int(own[:, :, k].flatten().argmax()), own.shape[1])
        found.append((k, share, images[image], cell))
    return found


def _most_chosen(choice: Tensor, most: int) -> list[tuple[int, float]]:
    counts = choice.flatten().bincount()
    order = counts.argsort(descending=True, stable=True)[:most].tolist()
    return [(k, float(counts[k]) / choice.numel()) for k in order if counts[k]]


def run_images(cfg: Config, images: str | Path | UnlabeledImages | None = None) -> UnlabeledImages:
    """Return the images that a config trains on, or others in their place."""
    if isinstance(images, UnlabeledImages):
        return images
    if images is not None:
        return UnlabeledImages(data_root=str(images))
    require(cfg, **{"train_dataloader.dataset.type": str})
    spec = cfg.train_dataloader.dataset.to_dict()
    with explain_build_errors(cfg):
        return DATASETS.build({"_scope_": "mmssprl", **spec, "pipeline": []})


def _load(cfg: Config, checkpoint: Path) -> SSPRL:
    kind = pretraining_class(cfg)
    if kind is None or not issubclass(kind, SSPRL):
        raise UserValueError(
            "only SS-PRL and SwAV have prototypes, but the run of "
            f"{cfg.filename} trains {cfg.model.get('type')}; give the work dir of such a run."
        )
    with explain_build_errors(cfg):
        model: SSPRL = build_model(cfg.model.to_dict())
    parts = ("backbone.", "neck.", "head.prototypes.")
    own, state = (
        {name: value for name, value in each.items() if name.startswith(parts)}
        for each in (model.state_dict(), read_state(checkpoint))
    )
    remedy = "keep a run's config beside its checkpoints."
    check_fit(state, own, weights=str(checkpoint), owner=str(cfg.filename), remedy=remedy)
    model.load_state_dict(state, strict=False)
    model.eval()
    return model


def _caption(axes: Axes, text: str, colour: str) -> None:
    axes.set_title(text, color=colour, fontsize=7, fontweight="normal", pad=2)
