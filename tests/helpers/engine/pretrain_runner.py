"""A runner that pre-trains a small network for some epochs of seconds."""

import copy
import os

from helpers.models.small_ssprl import BACKBONE
from mmengine.config import Config
from mmengine.runner import Runner

LAYOUT = {
    "image_px": 16,
    "levels": [{"grid": 2, "resize_px": 32, "patch_px": 16}],
}


def make_runner(images, work_dir, max_epochs=2, kind=Runner, **overrides):
    cfg = Config(
        {
            "default_scope": "mmssprl",
            "work_dir": str(work_dir),
            "model": {
                "type": "SSPRL",
                "layout": LAYOUT,
                "backbone": BACKBONE,
                "neck": {
                    "type": "MultiHeadNeck",
                    "in_channels": 8,
                    "hid_channels": 8,
                    "out_channels": 4,
                },
                "head": {
                    "type": "SinkhornHead",
                    "in_channels": 4,
                    "num_prototypes": 6,
                    "num_patch_prototypes": 5,
                    "queue_length": 8,
                    "patch_queue_length": 32,
                    "queue_start_epoch": 1,
                    "freeze_epochs": 1,
                },
            },
            "train_dataloader": {
                "batch_size": 4,
                "num_workers": 0,
                "drop_last": True,
                "sampler": {"type": "DefaultSampler", "shuffle": True},
                "collate_fn": {"type": "default_collate"},
                "dataset": {
                    "type": "UnlabeledImages",
                    "data_root": str(images),
                    "pipeline": [{"type": "PyramidCrop", "layout": LAYOUT}],
                },
            },
            "optim_wrapper": {"type": "OptimWrapper", "optimizer": {"type": "LARC", "lr": 0.6}},
            "param_scheduler": [
                {
                    "type": "CosineAnnealingLR",
                    "T_max": 4,
                    "eta_min": 0.0006,
                    "convert_to_iter_based": True,
                }
            ],
            "train_cfg": {"type": "EpochBasedTrainLoop", "max_epochs": max_epochs},
            "default_hooks": {
                "checkpoint": {"type": "PretrainCheckpointHook", "interval": 1},
                "logger": {"type": "LoggerHook", "interval": 1},
            },
            "custom_hooks": [{"type": "PretrainHook"}],
            "randomness": {"seed": 3},
            "log_level": "WARNING",
        },
        cfg_text="# made by the test",
        filename="toy_ssprl.py",
    )
    cfg.merge_from_dict(copy.deepcopy(overrides))  # it takes `_delete_` out
    # Two runners in one second would share mmengine's name.
    cfg.experiment_name = f"{work_dir}{sorted(overrides)}".replace(os.sep, "_")
    return kind.from_cfg(cfg)
