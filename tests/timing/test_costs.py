"""What an image costs: CPU time of its loader, bytes kept for the backward; and with how many
threads."""

import itertools
from types import SimpleNamespace

import image_folders
import pytest
import torch
from chunked_model import make_model
from profiles import Time
from small_ssprl import LAYOUT, packed_batch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader

from mmssprl.system.environment import torch_threads
from mmssprl.timing import loader_phases, threads, training
from mmssprl.timing.clock import PhaseClock
from mmssprl.timing.loader_phases import measure_loader
from mmssprl.timing.saved_bytes import saved_bytes


class Calling(nn.Module):
    """A function as a module, with the modules whose weights it uses."""

    def __init__(self, function, *parts):
        super().__init__()
        self.function, self.parts = function, nn.ModuleList(parts)

    def forward(self):
        return self.function()


def count(function, *parts):
    module = Calling(function, *parts)
    with saved_bytes(module) as counts:
        module()
    return counts


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

    def test_a_storage_counts_once_and_whole(self):
        whole = torch.randn(100, 4, requires_grad=True)
        part = whole[:2]
        assert count(lambda: part.square() + part.square() * 2) == [100 * 4 * 4]

    def test_freed_storages_are_not_taken_for_others(self):
        x = torch.randn(100_000, requires_grad=True)

        def forward():
            for _ in range(10):
                (x * 2).square()  # dropped at once, so that the next one can get its memory
            return x.square()

        assert count(forward) == [4 * 100_000 * 11]

    def test_of_a_checkpointed_part_the_inputs(self):
        part = nn.Sequential(nn.Linear(3, 4), nn.Sigmoid(), nn.Linear(4, 2))
        x = torch.randn(5, 3, requires_grad=True)
        model = Calling(lambda: checkpoint(part, x, use_reentrant=False), part)
        with saved_bytes(model) as counts:
            model().sum().backward()  # which computes it again
        assert counts == [4 * 5 * 3]

    def test_an_error_ends_it(self):
        x = torch.ones(2, requires_grad=True)
        with pytest.raises(ZeroDivisionError):
            count(lambda: 1 // 0)
        kept = []
        with saved_tensors_hooks(kept.append, lambda tensor: tensor):
            x.square()
        assert len(kept) == 1

    def test_grows_with_the_batch(self):
        model = make_model()

        def count(num_images):
            data = model.data_preprocessor(packed_batch(LAYOUT, num_images), True)
            with saved_bytes(model) as counts:
                model(**data, mode="loss")
            return counts[0]

        two, three, four = count(2), count(3), count(4)
        assert four - three == three - two
        # Batch statistics and normalised prototypes do not grow.
        assert 0 < two - 2 * (four - three) < 0.05 * two


class SlowImages:
    """A data set whose items only let time pass: 3 ms to decode, 5 ms to crop."""

    def __init__(self, time, wall_ns=0):
        self.time, self.wall_ns, self.taken = time, wall_ns, []

    def load_image(self, idx):
        self.time.wall_ns += self.wall_ns
        return self.time.after(3_000_000, idx)

    def __getitem__(self, idx):
        self.taken.append(idx)
        return self.time.after(5_000_000, self.load_image(idx))


@pytest.fixture
def cpu_time(monkeypatch):
    cpu = Time()
    cpu.wall_ns = 0
    fake = SimpleNamespace(
        process_time_ns=cpu.now, perf_counter=lambda: (cpu.ns + cpu.wall_ns) / 1e9
    )
    monkeypatch.setattr(loader_phases, "time", fake)
    return cpu


class TestMeasureLoader:
    def measure(self, dataset, indices, batch_size):
        return measure_loader(
            dataset,
            indices,
            lambda part: dataset.time.after(8_000_000, list(part)),
            batch_size=batch_size,
        )

    def test_splits_the_cpu_time_of_an_image(self, cpu_time):
        dataset = SlowImages(cpu_time)
        cost, batches = self.measure(dataset, list(range(500, 600)), batch_size=2)
        assert cost.ms == {"read and decode": 3, "crop": 5, "collate": 8 / 2}
        assert cost.worker_ms == 12
        assert cost.num_images == 64
        assert cost.wall_over_cpu == 1
        assert batches == [[500, 501], [502, 503], [504, 505], [506, 507]]
        assert dataset.taken == [500, *range(500, 564)]
        assert "load_image" not in vars(dataset)

    def test_takes_what_few_images_give(self, cpu_time):
        cost, batches = self.measure(SlowImages(cpu_time), [4, 5, 6, 7, 8], batch_size=2)
        assert cost.num_images == 5
        assert batches == [[4, 5], [6, 7]]

    def test_a_slow_disk_ends_it_after_one_batch_and_is_seen(self, cpu_time):
        dataset = SlowImages(cpu_time, wall_ns=21 * 10**9)
        cost, batches = self.measure(dataset, list(range(100)), batch_size=3)
        assert cost.num_images == 3
        assert batches == [[0, 1, 2]]
        assert cost.wall_over_cpu == pytest.approx((21_000 * 3 + 24) / 24)

    def test_loads_on_one_thread(self, cpu_time, monkeypatch):
        threads = []
        note = lambda dataset, idx: threads.append(torch.get_num_threads())  # noqa: E731
        monkeypatch.setattr(SlowImages, "load_image", note)
        torch.set_num_threads(3)
        try:
            self.measure(SlowImages(cpu_time), [0, 1], batch_size=1)
            threads.append(torch.get_num_threads())
        finally:
            torch.set_num_threads(1)
        assert threads == [1, 1, 1, 3]

    def test_real_images(self, tmp_path):
        root = image_folders.folder(tmp_path, 8)
        dataset = image_folders.build(root, pipeline=[image_folders.CROP])
        dataset.set_epoch(0, 0)
        collate = torch.utils.data.default_collate
        cost, batches = measure_loader(dataset, [7, 0, 3, 2, 5], collate, batch_size=2)
        assert list(cost.ms) == ["read and decode", "crop", "collate"]
        assert min(cost.ms.values()) > 0
        assert len(batches) == 2
        expected = collate([dataset[3], dataset[2]])["inputs"]
        assert torch.equal(batches[1]["inputs"][0], expected[0])


class TestThreads:
    """A step takes 8 s over its threads; beside other work, a second of waiting for each."""

    @pytest.fixture
    def chosen(self, monkeypatch):
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        time = Time()
        monkeypatch.setattr(threads, "time", SimpleNamespace(perf_counter=lambda: time.ns / 1e9))

        def choose(waiting_s, number=4, device="cpu", pauses=None, **cfg):
            watch = SimpleNamespace(
                clock=PhaseClock(time.now), device=device, runner=SimpleNamespace(cfg=cfg)
            )
            used, found = [], []

            def steps():
                found.append((yield from threads.choose_threads(watch, itertools.count())))

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
        monkeypatch.setattr(threads, "get_world_size", lambda: 2)
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
        hook = training.MeasuringHook(None, least=1, most=1, max_seconds=1)
        hook.loader = DataLoader(range(9), batch_size=5)
        assert hook._load() == []
    assert [len(share) for share in shares] == [5, 5]
    assert sorted({*shares[0], *shares[1]}) == list(range(9))
