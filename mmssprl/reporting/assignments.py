"""Which prototypes the images and patches of a run choose.

Legend: N readable images, M_s crops and K_s prototypes of scale s, px side of a crop.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from mmengine.config import Config
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from ..config.build_errors import explain_build_errors
from ..config.run_config import require, run_config
from ..datasets import UnlabeledImages
from ..drawing.sheets import Tile, picture
from ..drawing.style import INK
from ..errors import called
from ..features.backbone import FeatureBackbone
from ..features.crops import Crops
from ..features.extract import FeatureOptions, extract, joined
from ..models import SSPRL
from ..registry import DATASETS
from ..saving.run_files import require_newest
from ..weights import check_fit
from ..weights.backbone import build_model
from ..weights.checkpoint_file import read_state
from ..weights.checkpoint_prefixes import require_finite

MAX_IMAGES = 1000  # at most so many are read, drawn by a fixed seed
_BATCH = 16


@dataclass(frozen=True)
class Assignments:
    """Cosines of crops and prototypes; a crop chooses its most similar prototype."""

    model: SSPRL  # or SwAV, on the CPU
    images: UnlabeledImages
    indices: list[int]  # of the N readable images
    cosines: list[Tensor]  # for each scale (N, M_s, K_s)
    boxes: list[NDArray[np.float32]]  # (N, M_s, 4): left, top, right, bottom in pixels
    title: str = ""  # of the run, in a picture

    @classmethod
    def of_run(cls, work_dir: str | Path, images: UnlabeledImages) -> "Assignments":
        """Embed images with the newest checkpoint of a run, which trains SS-PRL or SwAV.

        Raises:
            FileNotFoundError: The run has no intact checkpoint.
            ValueError: The checkpoint does not fit the config.
        """
        checkpoint = require_newest(work_dir)
        cfg = run_config(work_dir)
        return cls.of(_load_model(checkpoint, cfg), images, Path(cfg.filename).stem)

    @classmethod
    @torch.no_grad()
    def of(cls, model: SSPRL, images: UnlabeledImages, title: str = "") -> "Assignments":
        """Embed centre and patches of at most ``MAX_IMAGES`` images."""
        sample = images.sample(MAX_IMAGES)
        backbone = FeatureBackbone(
            model.backbone,
            layout=model.layout,
            mean=model.data_preprocessor.mean,
            std=model.data_preprocessor.std,
        )
        options = FeatureOptions(batch_size=_BATCH, device="cpu", progress=False)
        crops = Crops(model.layout.image_px, model.layout.levels)
        found = joined(extract(backbone, sample.load_image, sample.names, crops, options))
        features = found.features.split(crops.counts, dim=1)

        cosines = []
        for x, neck, prototypes in zip(
            features, model.neck.heads, model.head.prototypes, strict=True
        ):
            scores = prototypes(F.normalize(neck(x.flatten(0, 1)).float(), dim=-1))
            cosines.append(scores.unflatten(0, (len(found.indices), -1)))

        boxes = np.stack([crops.boxes(*size) for size in found.sizes])
        by_scale = np.split(boxes, np.cumsum(crops.counts)[:-1], axis=1)
        return cls(model, sample, found.indices, cosines, by_scale, title)

    def choices(self, scale: int) -> Tensor:
        """Return the prototype that each crop of a scale chooses, int64 (N, M_s)."""
        return self.cosines[scale].argmax(dim=2)

    def counts(self, scale: int) -> Tensor:
        """Return how many crops of a scale choose each prototype, int64 (K_s,)."""
        return self.choices(scale).flatten().bincount(minlength=self.cosines[scale].shape[2])

    def most_chosen(self, scale: int, most: int, rows: Sequence[int]) -> list[tuple[int, float]]:
        """Return the prototypes that crops of some images choose most often, with their shares."""
        choice = self.choices(scale)[rows]
        counts = choice.flatten().bincount()
        order = counts.argsort(descending=True, stable=True)[:most].tolist()
        return [(k, float(counts[k]) / choice.numel()) for k in order if counts[k]]

    def nearest(self, scale: int, prototype: int, num: int) -> list[tuple[int, int]]:
        """Return image and crop of at most ``num`` crops nearest to a prototype, one per image.

        Crops that choose the prototype come first.
        """
        cosine = self.cosines[scale][:, :, prototype]
        chooses = self.choices(scale) == prototype
        score, crop = torch.where(chooses, cosine + 2, cosine).max(dim=1)
        order = score.argsort(descending=True, stable=True)[:num].tolist()
        return [(image, int(crop[image])) for image in order]

    def image(self, row: int) -> Tensor:
        """Load a readable image, (3, H, W)."""
        return self.images.load_image(self.indices[row])

    def tiles(
        self, scale: int, prototype: int, num: int, words: str = "", colour: str = INK
    ) -> list[Tile]:
        """Return the crops ``nearest`` to a prototype, with words above the first one."""
        crops = Crops(self.model.layout.image_px, self.model.layout.levels)
        near = self.nearest(scale, prototype, num)
        cut = [picture(crops.cut(self.image(row))[scale][crop]) for row, crop in near]
        return [Tile(each, "" if i else words, "", colour) for i, each in enumerate(cut)]


def _load_model(checkpoint: Path, cfg: Config) -> SSPRL:
    """Return the model of a checkpoint, in eval mode, with all but its queues."""
    with explain_build_errors(cfg):
        model: SSPRL = build_model(cfg.model.to_dict())
    parts = ("backbone.", "neck.", "head.prototypes.", "head.correlation.")
    own = {name: value for name, value in model.state_dict().items() if name.startswith(parts)}
    saved = {k.removeprefix("state_dict."): v for k, v in read_state(checkpoint).items()}
    state = {name: value for name, value in saved.items() if name.startswith(parts)}
    require_finite(state, checkpoint)
    remedy = "keep a run's config next to its checkpoints."
    check_fit(state, own, weights=str(checkpoint), owner=str(cfg.filename), remedy=remedy)
    model.load_state_dict(state, strict=False)
    model.eval()
    return model


def run_images(cfg: Config, images: str | Path | None = None) -> UnlabeledImages:
    """Return ``images``, or the images that a config trains on."""
    if images is not None:
        with called("images (--images)"):
            return UnlabeledImages(str(images), pixels=cfg)
    require(cfg, **{"train_dataloader.dataset.type": str})
    spec = cfg.train_dataloader.dataset.to_dict()
    with explain_build_errors(cfg):
        return DATASETS.build({"_scope_": "mmssprl", **spec, "pipeline": []})
