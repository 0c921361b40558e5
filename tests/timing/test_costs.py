import itertools
from types import SimpleNamespace

import pytest
import torch
from helpers.timing.profiles import Time
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader

from mmssprl.config.shipped import shipped
from mmssprl.system.environment import torch_threads
from mmssprl.timing import stopwatch, training
from mmssprl.timing.operations import flops_per_image
from mmssprl.timing.stopwatch import PhaseClock, measure_loader
from mmssprl.timing.training import saved_bytes

CROP = 24.29e9
"""Forward and backward passes of a ResNet-50 on 224 x 224 px."""


class TestSavedBytes:
    def test_by_hand(self):
        module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU())
        x = torch.randn(5, 3)
        with saved_bytes(module) as counts:
            result = module(x)
        # x, the normalisation's input, its mean and deviation, and what ReLU gives; neither the
        # weights nor the running statistics.
        assert counts == [4 * (5 * 3 + 5 * 4 + 2 * 4 + 5 * 4)]
        module(x)
        assert len(counts) == 1  # it is over
        result.sum().backward()
        assert module[0].weight.grad is not None

    def test_of_a_checkpointed_part_the_inputs(self):
        part = nn.Sequential(nn.Linear(3, 4), nn.Sigmoid(), nn.Linear(4, 2))
        x = torch.randn(5, 3, requires_grad=True)
        with saved_bytes(part) as counts:
            checkpoint(part, x, use_reentrant=False).sum().backward()  # computed again
        assert counts == [4 * 5 * 3]


class SlowImages:
    """A data set whose items only let time pass: 3 ms to decode, 5 ms to crop."""

    def __init__(self, time, wall_ns=0):
        self.time, self.wall_ns, self.taken, self.threads = time, wall_ns, [], set()

    def load_image(self, idx):
        self.time.wall_ns += self.wall_ns
        self.threads.add(torch.get_num_threads())
        return self.time.after(3_000_000, idx)

    def __getitem__(self, idx):
        self.taken.append(idx)
        return self.time.after(5_000_000, self.load_image(idx))


class TestMeasureLoader:
    @pytest.fixture
    def time(self, monkeypatch):
        cpu = Time()
        cpu.wall_ns = 0
        fake = SimpleNamespace(
            process_time_ns=cpu.now, perf_counter=lambda: (cpu.ns + cpu.wall_ns) / 1e9
        )
        monkeypatch.setattr(stopwatch, "time", fake)
        return cpu

    def measure(self, dataset, indices, batch_size):
        collate = lambda part: dataset.time.after(8_000_000, list(part))  # noqa: E731
        return measure_loader(dataset, indices, collate, batch_size=batch_size)

    def test_splits_the_cpu_time_of_an_image_on_one_thread(self, time):
        dataset = SlowImages(time)
        with torch_threads(3):
            ms, batches = self.measure(dataset, list(range(500, 600)), batch_size=2)
            assert torch.get_num_threads() == 3
        assert ms == {"read and decode": 3, "crop": 5, "collate": 8 / 2}
        assert batches == [[500, 501], [502, 503], [504, 505], [506, 507]]
        assert dataset.taken == [500, *range(500, 564)]
        assert dataset.threads == {1}
        assert "load_image" not in vars(dataset)

    def test_a_slow_disk_ends_it_after_one_batch(self, time):
        dataset = SlowImages(time, wall_ns=21 * 10**9)
        assert self.measure(dataset, list(range(100)), batch_size=3)[1] == [[0, 1, 2]]
        assert dataset.taken == [0, 0, 1, 2]


class TestThreads:
    """A step takes 8 s over its threads; beside other work, a second of waiting for each."""

    @pytest.fixture
    def chosen(self, monkeypatch):
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        time = Time()
        monkeypatch.setattr(stopwatch, "time", SimpleNamespace(perf_counter=lambda: time.ns / 1e9))

        def choose(waiting_s, number=4, device="cpu", pauses=None, **cfg):
            runner = SimpleNamespace(cfg=cfg)
            watch = SimpleNamespace(clock=PhaseClock(time.now), device=device, runner=runner)
            used, found = [], []

            def steps():
                found.append((yield from stopwatch.choose_threads(watch, itertools.count())))

            with torch_threads(number):
                for _ in steps():
                    used.append(torch.get_num_threads())
                    pause = (pauses or {}).get(len(used), 0)
                    time.after(int(1e8 * (8 / used[-1] + waiting_s * used[-1] + pause)))
                return torch.get_num_threads(), used, found[0]

        return choose

    def test_the_faster_number_stays(self, chosen):
        # 0.2 and 0.8 s a step: within 4 s only four rounds begin, so there is a fifth.
        assert chosen(waiting_s=0) == (4, [4, 1] * 5, pytest.approx(0.2))
        # 2.2 and 1.3 s.
        assert chosen(waiting_s=5) == (1, [4, 1] * 5, pytest.approx(1.3))
        # 6.2 and 2.3 s: after 20 s no round begins.
        assert chosen(waiting_s=15) == (1, [4, 1] * 3, pytest.approx(2.3))

    def test_one_slow_step_decides_nothing_and_a_small_gain_is_none(self, chosen):
        # The second step, the first with one thread, takes 10 s more.
        assert chosen(waiting_s=5, pauses={2: 100})[0] == 1
        assert chosen(waiting_s=1.5)[0] == 4  # 0.80 and 0.95 s
        assert chosen(waiting_s=1.9)[0] == 1  # 0.96 and 0.99 s

    def test_where_there_is_no_choice_no_step_is_taken(self, chosen, monkeypatch):
        assert chosen(5, number=1) == (1, [], None)
        assert chosen(5, device="cuda") == (4, [], None)
        assert chosen(5, num_threads=4) == (4, [], None)
        monkeypatch.setattr(stopwatch, "get_world_size", lambda: 2)
        assert chosen(5) == (4, [], None)
        monkeypatch.undo()
        monkeypatch.setenv("OMP_NUM_THREADS", "4")
        assert chosen(5) == (4, [], None)


def test_all_processes_load_equally_many_images(monkeypatch):
    """Of nine images for two processes, one is taken by both, as in training."""
    shares = []

    def measure(dataset, indices, *args, **options):
        shares.append(indices)
        return None, []

    monkeypatch.setattr(training, "measure_loader", measure)
    monkeypatch.setattr(training, "get_world_size", lambda: 2)
    for rank in range(2):
        monkeypatch.setattr(training, "get_rank", lambda rank=rank: rank)
        hook = training.MeasuringHook(None, most=1, max_seconds=1)
        hook.loader = DataLoader(range(9), batch_size=5)
        assert hook._load() == []
    assert [len(share) for share in shares] == [5, 5]
    assert sorted({*shares[0], *shares[1]}) == list(range(9))


@pytest.mark.parametrize(
    ("config", "crops"),
    [
        ("ssprl/ssprl", 7.41),
        ("ssprl/ssprl-image-only", 2.0),
        ("baselines/byol", 2.67),
        ("baselines/mocov2", 1.34),
    ],
)
def test_a_resnet50_is_counted_in_crops_of_224_px(config, crops):
    path = shipped(f"configs/{config}_resnet50_2xb64-coslr-200e_coco.py")
    # Heads come on top.
    assert flops_per_image(path) == pytest.approx(crops * CROP, rel=0.02)
