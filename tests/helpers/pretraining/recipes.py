"""Recipes of the methods of ``pretrain``, by default for COCO on two GPUs."""

from mmssprl.datasets import UnlabeledImages
from mmssprl.pretraining.config import make_config
from mmssprl.pretraining.options import PretrainOptions
from mmssprl.pretraining.recipe import choose_recipe

COCO = {"num_images": 82_783, "short_side_px": 480, "num_devices": 2, "on_gpu": True}
CPU = {"num_images": 1200, "short_side_px": 256, "num_devices": 1, "on_gpu": False}


def choose(method="ssprl", **kwargs):
    """The recipe of a method."""
    data = {name: kwargs.pop(name, value) for name, value in COCO.items()}
    return choose_recipe(PretrainOptions(method=method, **kwargs), **data)


def head_of(recipe):
    """What the recipe puts into the head's config."""
    name = "model.head."
    return {k.removeprefix(name): v for k, v in recipe.values.items() if k.startswith(name)}


def config_of(recipe):
    """The config of a recipe, on images of which none is read."""
    images = UnlabeledImages.__new__(UnlabeledImages)
    images.data_root, images.max_bad_share = "photos", 0.01
    return make_config(recipe, images)
