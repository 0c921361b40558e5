"""For the tests of profiling: a clock moved by hand, and a profile of round numbers."""

from dataclasses import replace

from mmssprl.config.shipped import shipped
from mmssprl.timing.result import Profile, Setting

CONFIG = shipped("configs/ssprl/ssprl_resnet18_scenes.py")

SETTING = Setting(
    config="configs/ssprl/mine.py",
    data="photos.tar",
    num_images=1000,
    batch_size=4,
    config_batch_size=4,
    max_epochs=20,
    checkpoint={"interval": 10, "max_keep_ckpts": 3},
    num_processes=1,
    num_workers=8,
    precision="float32",
    device="cpu",
    threads=2,
    load=0.5,
    cores=16.0,
    machine="a machine",
)
PROFILE = Profile(
    setting=SETTING,
    num_steps=30,
    loader_ms={"read and decode": 3.0, "crop": 6.0, "collate": 3.0},
    # 200 ms: 20 images a second, whose loading takes 40 of 200 ms of a core.
    step_ms={
        "copy to the device": 1.0,
        "augment": 19.0,
        "backbone forward": 40.0,
        "backbone backward": 60.0,
        "heads forward": 20.0,
        "heads backward": 30.0,
        "Sinkhorn": 8.0,
        "optimizer": 20.0,
        "communication": 0.0,
        "rest": 2.0,
    },
    free_step_ms=200.0,
    activation_bytes=4 * 3 * 2**20,
    peak_bytes=2**30,
    checkpoint_bytes=180_000_000,
    backbone_bytes=45_000_000,
)


def profile_with(*, free_step_ms=200.0, **setting):
    return replace(PROFILE, setting=replace(SETTING, **setting), free_step_ms=free_step_ms)


class Time:
    """A clock that moves only when told to."""

    def __init__(self):
        self.ns = 0

    def now(self):
        return self.ns

    def after(self, ns, result=None):
        self.ns += ns
        return result
