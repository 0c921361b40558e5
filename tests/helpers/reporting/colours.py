"""Images of one colour each, and SS-PRL whose prototypes are colours."""

import numpy as np
import torch
from helpers.reporting.tiny_views import write_config
from mmengine.config import Config
from PIL import Image
from torch import nn

from mmssprl.weights.backbone import build_model


class Pixels(nn.Module):
    """A backbone whose map is the image itself."""

    def forward(self, images):
        return (images,)


COLOURS = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255)}


def write_colours(folder):
    """Write five images; the upper left quarter of the two green ones is blue."""
    images = folder / "images"
    images.mkdir()
    for i, name in enumerate(["red", "red", "red", "green", "green"]):
        pixels = np.empty((64, 64, 3), np.uint8)
        pixels[:] = COLOURS[name]
        if name == "green":
            pixels[:32, :32] = COLOURS["blue"]
        Image.fromarray(pixels).save(images / f"{i}.png")
    return images


def colour_model(tmp_path):
    """SS-PRL whose embeddings are colours; prototype 4 is red, 1 green, 7 blue, in all scales."""
    cfg = Config.fromfile(write_config(tmp_path, "mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0)"))
    spec = cfg.model.to_dict()
    spec["layout"]["num_small"] = 0
    spec["neck"] |= {"in_channels": 3, "out_channels": 3, "hid_channels": 0}
    spec["head"] |= {"in_channels": 3}
    model = build_model(spec)
    model.backbone = Pixels()  # pooled, their mean colour
    for head, prototypes in zip(model.neck.heads, model.head.prototypes, strict=True):
        head.weight.data, head.bias.data = torch.eye(3), torch.zeros(3)
        prototypes.weight.data.fill_(-1.0)
        for number, name in ((4, "red"), (1, "green"), (7, "blue")):
            prototypes.weight.data[number] = torch.tensor(COLOURS[name]) / 255
    model.eval()
    return model
