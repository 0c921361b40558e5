"""One training step of mmpretrain's SwAV and of SS-PRL's image-only form, on the same crops.

Legend: B images, V = 2 + 6 crops per image, 224 and 96 px.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from mmengine.config import Config
from mmengine.optim import OptimWrapper
from mmpretrain.registry import MODELS, OPTIMIZERS

from mmssprl.pyramid import ViewLayout

from ..common.clock import interleave, ratio, spread
from ..common.gates import Row, measured
from ..common.models import CONFIGS, Batch, build_model, build_optimizer

IMAGE_ONLY = "ssprl-image-only_resnet50_2xb64-coslr-200e_coco.py"
NUM_SMALL = 6


def image_only_config() -> Config:
    """Read the shipped image-only config and give it SwAV's small views, no queue, no freezing."""
    cfg = Config.fromfile(CONFIGS / IMAGE_ONLY)
    cfg.model.layout.num_small = NUM_SMALL
    cfg.model.head.update(queue_length=0, patch_queue_length=0, freeze_epochs=0)
    return cfg


def build_swav(cfg: Mapping, ours: Any) -> Any:
    """Build mmpretrain's SwAV with the sizes, settings and weights of our model, in training mode.

    Args:
        cfg: Config of our model.
        ours: The model.
    """
    head, neck, layout = cfg["model"]["head"], cfg["model"]["neck"], ours.layout
    model = MODELS.build(
        {
            "type": "mmpretrain.SwAV",
            "data_preprocessor": {
                "type": "mmpretrain.SelfSupDataPreprocessor",
                "mean": ours.data_preprocessor.mean,
                "std": ours.data_preprocessor.std,
            },
            "backbone": {**cfg["model"]["backbone"], "type": "mmpretrain.ResNet"},
            "neck": {
                "type": "mmpretrain.SwAVNeck",
                "in_channels": neck["in_channels"],
                "hid_channels": neck["hid_channels"],
                "out_channels": neck["out_channels"],
                "norm_cfg": {"type": "BN1d"},
            },
            "head": {
                "type": "mmpretrain.SwAVHead",
                "loss": {
                    "type": "mmpretrain.SwAVLoss",
                    "feat_dim": neck["out_channels"],
                    "num_prototypes": head["num_prototypes"],
                    "num_crops": [layout.num_image_views - layout.num_small, layout.num_small],
                    "temperature": head["temperature"],
                    "epsilon": head["epsilon"],
                    "sinkhorn_iterations": head["num_iters"],
                },
            },
        }
    )
    model.backbone.load_state_dict(ours.backbone.state_dict())
    model.neck.projection_neck.load_state_dict(ours.neck.heads[0].state_dict())
    model.head.loss_module.prototypes.load_state_dict(ours.head.prototypes[0].state_dict())
    return model.train()


def swav_batch(batch: Batch) -> Batch:
    """Turn our batch into SwAV's: V tensors (B, 3, px, px), channel first as its loader packs."""
    crops = [crop.contiguous() for group in batch["inputs"] for crop in group.unbind(1)]
    return {"inputs": crops, "data_samples": []}


def check_same(ours: Any, swav: Any, batch: Batch) -> float:
    """Require that both models compute the same loss from the same crops, and return it.

    Our augmentation is off here: mmpretrain's is in its loader.

    Raises:
        RuntimeError: The losses differ, by other crops or by other settings.
    """
    mine = ours.data_preprocessor(batch, training=False)
    theirs = swav.data_preprocessor(swav_batch(batch), training=True)
    with torch.no_grad():
        loss, other = (
            float(sum(model(**data, mode="loss").values()))
            for model, data in ((ours, mine), (swav, theirs))
        )
    if abs(loss - other) > 1e-4 * abs(other):
        raise RuntimeError(
            f"both models must compute the same loss, but ours is {loss} and SwAV's {other}; "
            "compare their crops and settings."
        )
    return loss


def swav_rows(
    make_batch: Callable[[ViewLayout, int], Batch], batch_size: int, rounds: int
) -> list[Row]:
    """Time both training steps, of the same crops, on one thread.

    Args:
        make_batch: Gives a batch of B images for a layout.
        batch_size: B.
        rounds: Steps of each side.
    """
    cfg = image_only_config()
    ours = build_model(cfg)
    swav = build_swav(cfg, ours)
    batch = make_batch(ours.layout, batch_size)
    loss = check_same(ours, swav, batch)
    batch_of_swav = swav_batch(batch)
    wrapper = build_optimizer(cfg, ours)
    lars = OPTIMIZERS.build({"type": "LARS", "params": swav.parameters(), "lr": 0.6})
    wrapper_of_swav = OptimWrapper(lars)
    seconds = interleave(
        {
            "ours": lambda: ours.train_step(batch, wrapper),
            "swav": lambda: swav.train_step(batch_of_swav, wrapper_of_swav),
        },
        rounds,
    )
    note = (
        f"{batch_size} images x {ours.layout.num_crops} crops, ResNet-50, both losses {loss:.4f} "
        "before the first step; ours augments in the step, mmpretrain in its loader"
    )
    per_image = {
        side: [1000 * value / batch_size for value in spread(values)]
        for side, values in seconds.items()
    }
    return [
        measured("SwAV", *ratio(seconds["swav"], seconds["ours"]), note=note),
        *(measured(f"SwAV {side}", *values) for side, values in per_image.items()),
    ]
