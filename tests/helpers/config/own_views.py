"""The model of a config, and a batch that its own data pipeline has cut for it."""

import torch
from mmengine.registry import DefaultScope

from mmssprl.config.pretrain_checks import hand_on_layout
from mmssprl.datasets import stack_views
from mmssprl.datasets.transforms import TeacherCrop
from mmssprl.pyramid import ViewLayout
from mmssprl.registry import MODELS, TRANSFORMS


def model_and_batch(cfg, num_images):
    """Build both parts of a pre-training config; the batch is augmented, of random pixels."""
    hand_on_layout(cfg)
    with DefaultScope.overwrite_default_scope("mmssprl"):
        model = MODELS.build(cfg.model)
        (crop,) = [TRANSFORMS.build(step) for step in cfg.train_dataloader.dataset.pipeline]
    assert crop.layout == model.layout == ViewLayout.build(cfg.layout)
    if isinstance(crop, TeacherCrop):
        crop.take_maps(None, num_images, 49, model.teacher_head.size)
    generator = torch.Generator().manual_seed(0)
    samples = []
    for seed in range(num_images):
        image = torch.randint(0, 256, (3, 60, 80), generator=generator, dtype=torch.uint8)
        samples.append(crop({"img": image, "crop_seed": (seed,), "sample_idx": seed}))
    return model, model.data_preprocessor(stack_views(samples), training=True)
