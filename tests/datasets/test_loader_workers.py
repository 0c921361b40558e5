import cv2
import torch
from mmengine.config import Config
from mmengine.runner import Runner

READS, NUM_IMAGES = 100_000, 50_000


def test_workers_of_the_shipped_runtime_have_one_thread(tmp_path):
    runtime = Config.fromfile("configs/_base_/default_runtime.py")
    before = torch.get_num_threads(), cv2.getNumThreads()
    torch.set_num_threads(3)
    cv2.setNumThreads(3)
    try:
        Runner(torch.nn.Linear(1, 1), str(tmp_path), env_cfg=runtime.env_cfg)
        loader = Runner.build_dataloader(
            {
                "dataset": range(4),
                "sampler": {"type": "DefaultSampler", "shuffle": False},
                "batch_size": 2,
                "num_workers": 2,
                "collate_fn": lambda _: (torch.get_num_threads(), cv2.getNumThreads()),
            },
            seed=0,
        )
        assert list(loader) == [(1, 1)] * 2
    finally:
        torch.set_num_threads(before[0])
        cv2.setNumThreads(before[1])
