"""A shipped config, its model, and a batch that its own data pipeline has cut for it."""

import torch
from helpers.package.checkout import ROOT
from mmengine.registry import DefaultScope

from mmssprl.config.at_size import read_at_size
from mmssprl.config.pretrain_checks import hand_on_layout
from mmssprl.datasets import stack_views
from mmssprl.datasets.transforms import TeacherCrop
from mmssprl.pyramid import ViewLayout
from mmssprl.registry import MODELS, TRANSFORMS

COCO = "resnet50_2xb64-coslr-200e_coco"


def load(name):
    """Read a pre-training config by its name; ``METHOD_resnet18_SIZE`` is made for that size."""
    method, _, size = name.partition("_resnet18_")
    (file,) = (ROOT / "configs").glob(f"*/{method}_{COCO}.py" if size else f"*/{name}.py")
    return read_at_size(file, size or None)


def model_and_batch(cfg, num_images):
    """Build both parts of a pre-training config; the batch is augmented, of random pixels."""
    hand_on_layout(cfg)
    with DefaultScope.overwrite_default_scope("mmssprl"):
        model = MODELS.build(cfg.model)
        (crop,) = [TRANSFORMS.build(step) for step in cfg.train_dataloader.dataset.pipeline]
    assert crop.layout == model.layout == ViewLayout.build(cfg.layout)
    if isinstance(crop, TeacherCrop):
        crop.take_maps(None, 49, model.teacher_head.size)
    generator = torch.Generator().manual_seed(0)
    samples = []
    for seed in range(num_images):
        image = torch.randint(0, 256, (3, 60, 80), generator=generator, dtype=torch.uint8)
        samples.append(crop({"img": image, "crop_seed": (seed,), "sample_idx": seed}))
    return model, model.data_preprocessor(stack_views(samples), training=True)
