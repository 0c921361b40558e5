"""What the workers of a loader use: threads, memory, file descriptors."""

import os
import time
from pathlib import Path

import cv2
import pytest
import torch
from helpers.datasets.image_folders import build, folder
from mmengine.config import Config
from mmengine.runner import Runner
from torch.utils.data import DataLoader, Dataset

CONFIGS = Path(__file__).parents[2] / "configs"


class Threads(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.get_num_threads(), cv2.getNumThreads()


def test_workers_of_the_shipped_runtime_have_one_thread(tmp_path):
    runtime = Config.fromfile(CONFIGS / "_base_" / "default_runtime.py")
    before = torch.get_num_threads(), cv2.getNumThreads()
    torch.set_num_threads(3)
    cv2.setNumThreads(3)
    try:
        Runner(torch.nn.Linear(1, 1), str(tmp_path), env_cfg=runtime.env_cfg)
        loader = Runner.build_dataloader(
            {
                "dataset": Threads(),
                "sampler": {"type": "DefaultSampler", "shuffle": False},
                "batch_size": 2,
                "num_workers": 2,
                "collate_fn": {"type": "default_collate"},
            },
            seed=0,
        )
        assert [[t.tolist() for t in batch] for batch in loader] == [[[1, 1], [1, 1]]] * 2
    finally:
        torch.set_num_threads(before[0])
        cv2.setNumThreads(before[1])


class WaitsForTheOthers(Dataset):
    """A data set whose first item is finished when all other workers have filled their queues."""

    def __init__(self, images, num_ahead):
        self.images = images
        self.num_ahead = num_ahead
        self.done = torch.zeros(len(images), dtype=torch.uint8).share_memory_()

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        end = time.monotonic() + 60
        while index == 0 and self.done.sum() < self.num_ahead and time.monotonic() < end:
            time.sleep(0.01)
        item = self.images[index]
        self.done[index] = 1
        return item


@pytest.mark.dist
def test_prefetched_batches_of_16_workers_need_few_file_descriptors(tmp_path):
    num_workers, prefetch = 16, 4
    levels = [
        {"grid": 2, "resize_px": 32, "patch_px": 16},
        {"grid": 3, "resize_px": 48, "patch_px": 12},
    ]
    crop = {"type": "PyramidCrop", "layout": {"image_px": 20, "levels": levels}}
    images = build(folder(tmp_path, 4 * num_workers * prefetch), pipeline=[crop])
    assert [len(group) for group in images[0]["inputs"]] == [2, 8, 18]  # 28 crops
    ahead = (num_workers - 1) * prefetch
    loader = DataLoader(
        WaitsForTheOthers(images, ahead), 1, num_workers=num_workers, prefetch_factor=prefetch
    )
    before = len(os.listdir("/proc/self/fd"))
    batches = iter(loader)
    next(batches)
    opened = len(os.listdir("/proc/self/fd")) - before
    for _ in batches:  # a loader that is left before its end takes long to stop
        pass
    # 3 tensors a batch, of which most are in this process by now: one each for 28 crops would
    # be 1,680, and 1,024 are allowed in many places.
    assert 2 * ahead < opened < 350
