import multiprocessing
import random

import cv2
import psutil
import torch
from helpers.datasets.image_folders import folder
from mmengine.config import Config
from mmengine.runner import Runner

from mmssprl.datasets import UnlabeledImages
from mmssprl.datasets.image_index import ImageNames

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


def growth_bytes(look_up):
    """Return by how much the memory of a forked process grows that is not shared."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def work():
        draw = random.Random(0).randrange  # a list of numbers from the parent would be copied too
        uss = []
        for reads in (1000, READS):  # the first are what Python itself needs once
            for _ in range(reads):
                look_up(draw(NUM_IMAGES))
            uss.append(psutil.Process().memory_full_info().uss)
        sender.send(uss[1] - uss[0])

    worker = context.Process(target=work)
    worker.start()
    sender.close()  # so that a worker that dies ends the waiting
    growth = receiver.recv()
    worker.join()
    return growth


def test_worker_does_not_grow_by_looking_up_paths(tmp_path):
    """It does not copy the paths that it looks up, as it would those of a list."""
    names = [f"n{i % 1000:08}/n{i % 1000:08}_{i}.JPEG" for i in range(NUM_IMAGES)]
    dataset = UnlabeledImages(data_root=str(folder(tmp_path, 1)))
    table = ImageNames.of(names)
    dataset.data_bytes, dataset.data_address = table.blob, table.ends
    # Measured 0.7 bytes a look-up, and 15 for a list of str, of which each is copied.
    assert growth_bytes(dataset.get_data_info) < 4 * READS
    assert growth_bytes(lambda index: names[index]) > 10 * READS
