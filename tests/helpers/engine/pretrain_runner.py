"""A runner that pre-trains a small network for some epochs of seconds."""

import copy
import os

from helpers.saving.stopped_runs import PRETRAINING
from mmengine.config import Config
from mmengine.runner import Runner


def make_runner(images, work_dir, max_epochs=2, **overrides):
    cfg = Config.fromstring(PRETRAINING.format(images=str(images)), ".py").to_dict()
    cfg |= {
        "default_scope": "mmssprl",
        "work_dir": str(work_dir),
        "default_hooks": {
            "checkpoint": {"type": "PretrainCheckpointHook", "interval": 1},
            "logger": {"type": "LoggerHook", "interval": 1},
        },
        "custom_hooks": [{"type": "PretrainHook"}],
        "randomness": {"seed": 3},
        "log_level": "WARNING",
    }
    cfg["train_dataloader"] |= {"batch_size": 4, "collate_fn": {"type": "default_collate"}}
    cfg["param_scheduler"][0]["T_max"] = 4
    cfg["train_cfg"]["max_epochs"] = max_epochs
    cfg = Config(cfg, cfg_text="# made by the test", filename="toy_ssprl.py")
    cfg.merge_from_dict(copy.deepcopy(overrides))  # it takes `_delete_` out
    # Two runners in one second would share mmengine's name.
    cfg.experiment_name = f"{work_dir}{sorted(overrides)}".replace(os.sep, "_")
    return Runner.from_cfg(cfg)
