"""Shipped configs of pre-training by their names."""

from helpers.package.checkout import ROOT

from mmssprl.config.at_size import read_at_size

COCO = "resnet50_2xb64-coslr-200e_coco"


def load(name):
    """Read a pre-training config by its name; ``METHOD_resnet18_SIZE`` is made for that size."""
    method, _, size = name.partition("_resnet18_")
    (file,) = (ROOT / "configs").glob(f"*/{method}_{COCO}.py" if size else f"*/{name}.py")
    return read_at_size(file, size or None)
