"""A probe without labels: whether features find the other half of an image.

Legend: N images, C features.
"""

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ..datasets import ImageReadError, UnlabeledImages
from ..features.backbone import FeatureBackbone
from ..features.crops import Crops
from ..features.extract import FeatureOptions, extract, joined
from .intervals import Scored


def score_halves(
    model: FeatureBackbone, images: UnlabeledImages, options: FeatureOptions
) -> Scored:
    """Return hits (N,): whether the nearest right half to an image's left half is its own.

    Halves are compared by the cosine of their features; unreadable images, and images that are too
    narrow to have two, are skipped.
    """

    def read(index: int) -> Tensor:
        image = images.load_image(index // 2)  # (3, H, W)
        if image.shape[2] < 2:
            raise ImageReadError(images.names[index // 2], "it is 1 px wide, and has no halves")
        return image.tensor_split(2, dim=2)[index % 2]

    names = np.repeat(images.names, 2).tolist()  # left and right
    found = joined(extract(model, read, names, Crops(model.image_px), options))
    units = F.normalize(found.features[:, 0].double(), dim=1)  # (2 N, C), left and right in turn
    left, right = units.unflatten(0, (-1, 2)).unbind(dim=1)
    nearest = (left @ right.T).argmax(dim=1)
    return Scored((nearest == torch.arange(len(nearest))).double())
