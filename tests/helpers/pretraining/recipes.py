"""Recipes of the methods of ``pretrain``, by default for COCO on two GPUs."""

from mmssprl.datasets import UnlabeledImages
from mmssprl.pretraining.choose import choose_recipe
from mmssprl.pretraining.config import finish_config
from mmssprl.pretraining.options import PretrainOptions

COCO = {"num_images": 82_783, "short_side_px": 480, "num_devices": 2, "on_gpu": True}
CPU = {"num_images": 1200, "short_side_px": 256, "num_devices": 1, "on_gpu": False}


def choose(method="ssprl", **kwargs):
    """The recipe of a method."""
    data = {name: kwargs.pop(name, value) for name, value in COCO.items()}
    return choose_recipe(PretrainOptions(method=method, **kwargs), **data)


def config_of(recipe):
    """The whole config of a recipe, on images of which none is read."""
    images = UnlabeledImages.__new__(UnlabeledImages)
    images.data_root = "photos"
    images.max_bad_share = 0.01
    finish_config(recipe, images)
    return recipe.cfg
