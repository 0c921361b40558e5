from types import SimpleNamespace
from unittest import mock

import pytest
import torch
from helpers.engine.pretrain_runner import make_runner
from torch.utils.data import DataLoader

from mmssprl.engine import hooks
from mmssprl.engine.hooks import Prefetcher, PretrainHook, SideStreamCopy


def prefetched(copied, num_workers, bad=None):
    def copy(batch):
        copied.append(batch["inputs"].tolist())
        return batch["inputs"] + 100

    numbers = [{"inputs": torch.tensor(i)} if i != bad else None for i in range(7)]
    workers = {"num_workers": num_workers, "persistent_workers": num_workers > 0}
    return Prefetcher(DataLoader(numbers, batch_size=2, **workers), copy)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_order_and_content_over_epochs_also_if_a_loop_stops_early(num_workers):
    copied, whole = [], [[0, 1], [2, 3], [4, 5], [6]]
    prefetcher = prefetched(copied, num_workers)
    next(iter(prefetcher))
    for epoch in range(1, 3):
        assert [(batch - 100).tolist() for batch in prefetcher] == whole
        assert copied == [[0, 1], *(whole * epoch)]


@pytest.mark.parametrize("num_workers", [0, 1])
def test_an_error_of_the_loader_comes_up_at_its_batch(num_workers):
    copied = []
    with pytest.raises(TypeError, match="NoneType"):
        list(prefetched(copied, num_workers, bad=4))
    assert copied == [[0, 1], [2, 3]]


@pytest.mark.parametrize("device", ["cpu", "cuda:1"])
def test_the_hook_wraps_the_loader_on_cuda_only_and_for_the_training_only(
    images, tmp_path, device, monkeypatch
):
    made = mock.Mock()
    monkeypatch.setattr(hooks, "SideStreamCopy", made)
    runner = make_runner(images, tmp_path)
    loader, model = runner.train_dataloader, runner.model
    parameter = SimpleNamespace(device=torch.device(device))
    monkeypatch.setattr(model, "parameters", lambda: iter([parameter]))
    hook = PretrainHook()
    hook.before_train(runner)
    if device == "cpu":
        assert runner.train_dataloader is loader
        assert not made.called
    else:
        assert runner.train_dataloader.loader is loader
        made.assert_called_once_with(model.data_preprocessor.cast_data, parameter.device)
    hook.after_train(runner)
    assert runner.train_dataloader is loader


@pytest.mark.gpu
def test_batches_arrive_whole_while_the_device_is_busy():
    device = torch.device("cuda")
    source = [{"inputs": [torch.full((2**20,), i).pin_memory()]} for i in range(20)]

    def move(batch):
        return {"inputs": [x.to(device, non_blocking=True) for x in batch["inputs"]]}

    prefetcher = Prefetcher(source, SideStreamCopy(move, device))
    busy = torch.randn(2048, 2048, device=device)
    sums = []
    torch.cuda.set_sync_debug_mode("error")
    try:
        for batch in prefetcher:
            for _ in range(5):
                busy = (busy @ busy).clamp(-1, 1)
            sums.append(batch["inputs"][0].sum())
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert [int(x) for x in sums] == [i * 2**20 for i in range(20)]


@pytest.mark.gpu
def test_the_copy_does_not_wait_for_the_step():
    device = torch.device("cuda")
    copy_ = SideStreamCopy(lambda batch: batch.to(device, non_blocking=True), device)
    batch = torch.ones(2**20).pin_memory()
    copy_(batch)  # the first use of a stream is slow
    busy = torch.randn(8192, 8192, device=device)
    torch.cuda.synchronize()
    step_done, copied = torch.cuda.Event(), torch.cuda.Event()
    for _ in range(20):
        busy = (busy @ busy).clamp(-1, 1)
    step_done.record()
    moved = copy_(batch)
    copied.record(copy_._stream)
    copied.synchronize()
    assert not step_done.query()
    assert moved.device.type == "cuda"
    assert moved.sum() == 2**20
