"""Recipes of the methods of ``pretrain``, by default for COCO on two GPUs."""

from functools import cache

from mmengine.config import Config

from mmssprl.config.shipped import shipped
from mmssprl.pretraining.methods import find_method
from mmssprl.pretraining.recipe import choose_recipe

COCO = {"num_images": 82_783, "short_side_px": 480, "num_devices": 2, "on_gpu": True}
CPU = {"num_images": 1200, "short_side_px": 256, "num_devices": 1, "on_gpu": False}


@cache
def base_config(path):
    """A shipped config, which no test changes."""
    return Config.fromfile(shipped(path))


def choose(method="ssprl", variant="paper", layout=None, **kwargs):
    """The recipe of a method, with other views than the base config's if there is a layout."""
    chosen = find_method(method, variant if method == "ssprl" else None)
    base = base_config(chosen.base_config)
    if layout is not None:
        base = Config({**base.to_dict(), "model": {**base.model.to_dict(), "layout": layout}})
    imagenet = base_config(chosen.imagenet_config)
    return choose_recipe(chosen, base, imagenet, **{**COCO, **kwargs})
