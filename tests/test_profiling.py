"""The phases of a step, the cost of loading, and what is said about them."""

import csv
import io
import itertools
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import image_folders
import numpy as np
import pytest
import torch
import toy_run  # noqa: F401  # registers ToyData
from mmengine.config import Config
from mmengine.registry import DefaultScope
from PIL import Image
from profiles import PROFILE, profile_with
from torch import nn
from torch.utils.checkpoint import checkpoint

from mmssprl.models import sinkhorn_head
from mmssprl.profiling import (
    advise,
    draw_profile,
    format_csv,
    format_profile,
    loader_phases,
    profile_training,
)
from mmssprl.profiling import profile as profile_module
from mmssprl.profiling import step_phases as phases
from mmssprl.profiling.clock import REST, PhaseClock, replaced
from mmssprl.profiling.loader_phases import measure_loader
from mmssprl.profiling.parts import build_parts, choose_batch_size, read_config
from mmssprl.profiling.profile import mean_phases, typical, without_all_reduce
from mmssprl.profiling.result import dominant
from mmssprl.profiling.saved_bytes import count_saved_bytes
from mmssprl.shipped import shipped

CONFIG = shipped("configs/ssprl/ssprl_resnet18_scenes.py")


class Time:
    """A clock that moves only when told to."""

    def __init__(self):
        self.ns = 0

    def now(self):
        return self.ns

    def after(self, ns, result=None):
        self.ns += ns
        return result


class TestPhaseClock:
    def test_inner_phases_take_their_time_from_outer_ones(self):
        time = Time()
        clock = PhaseClock(time.now)
        time.after(7)  # before the step
        with clock.step() as times:
            time.after(1)
            with clock.phase("outer"):
                time.after(10)
                with clock.phase("inner"):
                    time.after(100)
                time.after(20)
            with clock.phase("inner"):
                time.after(200)
            time.after(2)
        time.after(7)  # after it
        assert times == {REST: 3, "outer": 30, "inner": 300}

    def test_the_rest_of_a_phase_can_go_on_as_another(self):
        time = Time()
        clock = PhaseClock(time.now)
        with clock.step() as times:
            with clock.phase("first"):
                time.after(1)
                clock.go_on_as("second")
                time.after(10)
            time.after(100)
        assert times == {"first": 1, "second": 10, REST: 100}

    def test_phases_sum_to_the_step_to_the_nanosecond(self):
        draw = np.random.default_rng(0)
        readings = []

        def now():
            readings.append((readings[-1] if readings else 0) + int(draw.integers(1, 10**9)))
            return readings[-1]

        clock = PhaseClock(now)
        with clock.step() as times:
            for name in "abcab":
                with clock.phase(name), clock.phase("inner"):
                    clock.go_on_as(name * 2)
        assert sum(times.values()) == readings[-1] - readings[0]
        assert len(readings) > 20
        assert min(times.values()) > 0

    def test_waits_for_the_device_before_each_reading(self):
        calls = []
        clock = PhaseClock(
            lambda: calls.append("now") or len(calls), lambda: calls.append("synchronize")
        )
        with clock.step(), clock.phase("a"):
            pass
        assert calls == ["synchronize", "now"] * 4

    def test_reads_nothing_outside_a_step(self):
        clock = PhaseClock(lambda: 1 // 0, lambda: 1 // 0)
        with clock.phase("a"):
            clock.go_on_as("b")
        assert clock.timed(lambda x: x + 1, "a")(2) == 3

    def test_an_error_closes_its_phases(self):
        time = Time()
        clock = PhaseClock(time.now)

        def fail():
            time.after(1)
            raise KeyError

        with clock.step() as times:
            with pytest.raises(KeyError):
                clock.timed(fail, "a")()
            time.after(10)
        assert times == {"a": 1, REST: 10}


@pytest.mark.parametrize("own", [True, False])
def test_replaced_leaves_an_object_as_it_was(own):
    owner = nn.Linear(2, 2)
    if own:
        owner.forward = owner.forward
    before = dict(vars(owner))
    with replaced(owner, "forward", lambda x: "new"):
        assert owner(None) == "new"
    assert vars(owner) == before
    with pytest.raises(ZeroDivisionError), replaced(owner, "forward", lambda x: 1 // x):
        owner(0)
    assert vars(owner) == before
    assert owner(torch.ones(1, 2)).shape == (1, 2)


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    draw = np.random.default_rng(0)
    for i in range(12):
        pixels = draw.integers(0, 256, (60, 80, 3), np.uint8)
        Image.fromarray(pixels).save(folder / f"{i:02}.jpg")
    return folder


def parts_of(images, **options):
    with DefaultScope.overwrite_default_scope("mmssprl"):
        cfg = read_config(
            CONFIG, data=images, amp=False, compile=False, cfg_options=options, launcher="none"
        )
        cfg.train_dataloader.batch_size = 4
        torch.manual_seed(0)
        parts = build_parts(cfg)
    batch = parts.collate([parts.dataset[i] for i in range(4)])
    return parts, batch


class TestPhasesOf:
    """Every part of a real step moves the clock by itself, and must get exactly its own time."""

    @pytest.mark.parametrize("num_chunks", [1, 2])
    def test_every_part_gets_its_own_time(self, images, monkeypatch, num_chunks):
        time, spent = Time(), Counter()
        parts, batch = parts_of(images, **{"model.num_chunks": num_chunks})
        model, wrapper = parts.core, parts.optim_wrapper
        units = (10**i for i in itertools.count())
        in_backward = False

        def costs(phase, backward=None):
            unit = next(units)

            def spend(*args):
                name = backward if backward and in_backward else phase
                spent[name] += unit
                time.after(unit)

            return spend

        def before(owner, name, spend):
            function = getattr(owner, name)
            monkeypatch.setattr(
                owner, name, lambda *a, **k: (spend(), function(*a, **k))[1], raising=True
            )

        before(model.data_preprocessor, "forward", costs(phases.AUGMENT))
        before(model.data_preprocessor, "cast_data", costs(phases.COPY))
        before(sinkhorn_head, "sinkhorn_jointly", costs(phases.SINKHORN))
        before(model, "parse_losses", costs(REST))
        before(wrapper.optimizer, "step", costs(phases.OPTIMIZER))
        before(wrapper.optimizer, "zero_grad", costs(phases.OPTIMIZER))
        backward = wrapper.backward

        def enter_backward(*args, **kwargs):
            nonlocal in_backward
            in_backward = True
            backward(*args, **kwargs)
            in_backward = False

        monkeypatch.setattr(wrapper, "backward", enter_backward)
        model.backbone.register_forward_hook(
            costs(phases.BACKBONE_FORWARD, phases.BACKBONE_BACKWARD)
        )
        model.neck.register_forward_hook(costs(phases.HEADS_FORWARD))
        before(model.head, "loss", costs(phases.HEADS_FORWARD))
        in_heads = [*model.neck.parameters(), *model.head.prototypes.parameters()]
        for name, params in (
            (phases.BACKBONE_BACKWARD, list(model.backbone.parameters())),
            (phases.HEADS_BACKWARD, in_heads),
        ):
            spend = costs(name)
            for param in params:
                param.register_hook(spend)

        clock = PhaseClock(time.now)
        with phases.phases_of(clock, model, wrapper), clock.step() as times:
            model.train_step(batch, optim_wrapper=wrapper)
        assert +times == spent
        assert set(spent) == set(phases.PHASES) - {phases.COMMUNICATION}
        assert sum(times.values()) == time.ns

    def test_a_backbone_without_gradients_has_no_backward(self, images):
        parts, batch = parts_of(images)
        parts.core.backbone.requires_grad_(False)
        clock = PhaseClock()
        with phases.phases_of(clock, parts.core, parts.optim_wrapper), clock.step() as times:
            parts.core.train_step(batch, optim_wrapper=parts.optim_wrapper)
        assert phases.BACKBONE_BACKWARD not in times
        assert times[phases.HEADS_BACKWARD] > 0

    def test_of_sinkhorn_the_collectives_are_communication(self, images, monkeypatch):
        time = Time()
        gather = torch.distributed.all_gather_into_tensor
        parts, _ = parts_of(images)
        with monkeypatch.context() as patch:
            patch.setattr(torch.distributed, "is_initialized", lambda: True)
            patch.setattr(torch.distributed, "all_gather_into_tensor", lambda: time.after(100))
            patch.setattr(
                sinkhorn_head,
                "sinkhorn_jointly",
                lambda: time.after(10, torch.distributed.all_gather_into_tensor()),
            )
            clock = PhaseClock(time.now)
            with phases.phases_of(clock, parts.core, parts.optim_wrapper), clock.step() as times:
                sinkhorn_head.sinkhorn_jointly()
                # Others', such as SyncBatchNorm's, stay where they are.
                torch.distributed.all_gather_into_tensor()
        assert times == {phases.SINKHORN: 10, phases.COMMUNICATION: 100, REST: 100}
        assert torch.distributed.all_gather_into_tensor is gather

    def test_is_undone_and_changes_no_step(self, images):
        states = []
        for is_timed in (False, True):
            parts, batch = parts_of(images)
            owners = (parts.core, parts.core.data_preprocessor, parts.optim_wrapper)
            before = [set(vars(owner)) for owner in owners]
            original = sinkhorn_head.sinkhorn_jointly
            clock = PhaseClock()
            if is_timed:
                with phases.phases_of(clock, parts.core, parts.optim_wrapper), clock.step():
                    assert sinkhorn_head.sinkhorn_jointly is not original
                    parts.core.train_step(batch, optim_wrapper=parts.optim_wrapper)
            else:
                parts.core.train_step(batch, optim_wrapper=parts.optim_wrapper)
            assert [set(vars(owner)) for owner in owners] == before
            assert sinkhorn_head.sinkhorn_jointly is original
            states.append(parts.core.state_dict())
        for name, value in states[0].items():
            assert torch.equal(value, states[1][name]), name


class TestSavedBytes:
    def test_by_hand(self):
        module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU())
        x = torch.randn(5, 3)
        result, count = count_saved_bytes(module, lambda: module(x))
        assert result.shape == (5, 4)
        # x, the normalisation's input, its mean and deviation, and what ReLU gives; neither the
        # weights nor the running statistics.
        assert count == 4 * (5 * 3 + 5 * 4 + 2 * 4 + 5 * 4)
        result.sum().backward()
        assert module[0].weight.grad is not None

    def test_a_storage_counts_once_and_whole(self):
        module = nn.Linear(1, 1)
        whole = torch.randn(100, 4, requires_grad=True)
        part = whole[:2]
        _, count = count_saved_bytes(module, lambda: part.square() + part.square() * 2)
        assert count == 100 * 4 * 4

    def test_freed_storages_are_not_taken_for_others(self):
        module = nn.Linear(1, 1)
        x = torch.randn(100_000, requires_grad=True)

        def forward():
            for _ in range(10):
                (x * 2).square()  # dropped at once, so that the next one can get its memory
            return x.square()

        _, count = count_saved_bytes(module, forward)
        assert count == 4 * 100_000 * 11

    def test_of_a_checkpointed_part_the_inputs(self):
        module = nn.Sequential(nn.Linear(3, 4), nn.Sigmoid(), nn.Linear(4, 2))
        x = torch.randn(5, 3, requires_grad=True)
        _, count = count_saved_bytes(module, lambda: checkpoint(module, x, use_reentrant=False))
        assert count == 4 * 5 * 3

    def test_doubles_with_the_batch(self, images):
        parts, batch = parts_of(images)

        def count(num_images):
            data = parts.core.data_preprocessor(
                {"inputs": [crops[:num_images] for crops in batch["inputs"]]}, True
            )
            return count_saved_bytes(parts.core, lambda: parts.model(**data, mode="loss"))[1]

        two, three, four = count(2), count(3), count(4)
        assert four - three == three - two
        # Batch statistics and normalised prototypes do not grow.
        assert 0 < two - 2 * (four - three) < 0.05 * two


class TestMeans:
    def test_the_middle_half_in_milliseconds(self):
        steps = [{"rest": 10**6 * total} for total in (9, 2, 4, 100, 3, 5, 1, 6)]
        assert typical(steps)["rest"] == (3 + 4 + 5 + 6) / 4
        assert typical(steps[:1])["rest"] == 9
        assert list(typical(steps)) == list(phases.PHASES)

    def test_whole_steps_are_chosen_so_that_the_sum_stays(self):
        draw = np.random.default_rng(0)
        steps = [{name: int(draw.integers(1, 10**9)) for name in phases.PHASES} for _ in range(30)]
        totals = sorted(sum(step.values()) for step in steps)[7:23]
        mean = sum(totals) / 16 / 1e6
        assert sum(typical(steps).values()) == pytest.approx(mean, rel=1e-12)

    def test_the_all_reduce_is_what_the_backward_takes_longer(self):
        synced = dict.fromkeys(phases.PHASES, 1.0)
        synced |= {phases.BACKBONE_BACKWARD: 50.0, phases.HEADS_BACKWARD: 8.0}
        local = dict.fromkeys(phases.PHASES, 0.5)
        local |= {phases.BACKBONE_BACKWARD: 30.0, phases.HEADS_BACKWARD: 9.0}
        split = without_all_reduce(synced, local)
        assert split[phases.BACKBONE_BACKWARD] == 30
        assert split[phases.HEADS_BACKWARD] == 8
        assert split[phases.COMMUNICATION] == 1 + 20
        assert split[phases.AUGMENT] == 1
        assert sum(split.values()) == sum(synced.values())

    def test_of_several_processes_odd_steps_only_tell_the_all_reduce(self):
        synced = {phases.BACKBONE_BACKWARD: 50 * 10**6, REST: 2 * 10**6}
        local = {phases.BACKBONE_BACKWARD: 30 * 10**6, REST: 10**6}
        mean = mean_phases([synced, local] * 4 + [synced], num_processes=2)
        assert +Counter(mean) == {
            phases.BACKBONE_BACKWARD: 30,
            phases.COMMUNICATION: 20,
            REST: 2,
        }
        assert mean_phases([synced], num_processes=1)[phases.BACKBONE_BACKWARD] == 50

    def test_of_several_processes_odd_steps_leave_out_the_all_reduce(self, monkeypatch):
        calls = []

        class Model:
            @contextmanager
            def no_sync(self):
                calls.append("no_sync")
                yield
                calls.append("sync")

        monkeypatch.setattr(profile_module, "get_world_size", lambda: 2)
        times = profile_module._timed_steps(
            PhaseClock(), Model(), calls.append, 4, float("inf"), lambda line: None
        )
        assert calls == [0, "no_sync", 1, "sync", 2, "no_sync", 3, "sync"]
        assert len(times) == 4
        # Two steps at least, however late it is.
        times = profile_module._timed_steps(
            PhaseClock(), Model(), calls.append, 4, 0.0, lambda line: None
        )
        assert len(times) == 2


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
            use_workers=False,
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
        dataset = SlowImages(cpu_time)
        monkeypatch.setattr(
            dataset, "load_image", lambda idx: threads.append(torch.get_num_threads())
        )
        torch.set_num_threads(3)
        try:
            self.measure(dataset, [0, 1], batch_size=1)
            threads.append(torch.get_num_threads())
        finally:
            torch.set_num_threads(1)
        assert threads == [1, 1, 1, 3]

    def test_real_images_through_a_worker(self, tmp_path):
        root = image_folders.folder(tmp_path, 8)
        dataset = image_folders.build(root, pipeline=[image_folders.CROP])
        dataset.set_epoch(0, 0)
        collate = torch.utils.data.default_collate
        cost, batches = measure_loader(
            dataset, [7, 0, 3, 2, 5], collate, batch_size=2, use_workers=True
        )
        assert list(cost.ms) == ["read and decode", "crop", "collate", "between processes"]
        assert min(cost.ms.values()) > 0
        assert cost.worker_ms < sum(cost.ms.values())
        assert len(batches) == 2
        expected = collate([dataset[3], dataset[2]])["inputs"]
        assert torch.equal(batches[1]["inputs"][0], expected[0])


class TestProfile:
    def test_rows_by_hand(self):
        rows = {row.name: row for row in PROFILE.rows}
        assert list(rows)[:4] == ["read and decode", "crop", "collate", "between processes"]
        assert "heads forward" not in rows
        heads = rows["heads"]
        assert (heads.part, heads.ms_per_step, heads.ms_per_image) == ("step", 50, 12.5)
        assert heads.percent == pytest.approx(25)
        crop = rows["crop"]
        assert (crop.part, crop.ms_per_step, crop.percent) == ("loader", 24, pytest.approx(12))
        steps = [row for row in PROFILE.rows if row.part == "step"]
        assert sum(row.percent for row in steps) == pytest.approx(100)
        assert sum(row.ms_per_step for row in steps) == pytest.approx(200)

    def test_rates_by_hand(self):
        assert PROFILE.images_per_s == pytest.approx(20)
        assert PROFILE.loader_images_per_s == pytest.approx(100)
        assert PROFILE.cores_needed == pytest.approx(20 / 100)
        several = profile_with(num_processes=3, free_step_ms=100.0)
        assert several.images_per_s == pytest.approx(120)
        assert several.cores_needed == pytest.approx(0.4)  # of each process

    def test_the_backbone_is_one_part_when_it_dominates(self):
        assert dominant(PROFILE) == ("backbone", pytest.approx(50))

    def test_table(self):
        text = format_profile(PROFILE)
        lines = text.splitlines()
        cells = {line[:24].strip(): line.split()[-3:] for line in lines if line.startswith("  ")}
        assert cells["augment"] == ["4.75", "19.00", "9.5"]
        assert cells["heads"] == ["12.50", "50.00", "25.0"]
        assert [line.split() for line in lines if line.startswith("  sum")] == [
            ["sum", "12.00", "48.00", "24.0"],
            ["sum", "50.00", "200.00", "100.0"],
        ]
        assert "  communication                    0           0          0  one process" in lines
        figures = {line[:14].strip(): line[14:] for line in lines[lines.index("") + 1 :]}
        assert figures["step"] == "20 images/s"
        assert figures["loader"] == "100 images/s per core"
        assert figures["loader cores"] == "0.2 keep up with the step"
        assert figures["peak memory"] == "1,024.0 MiB resident"
        assert figures["activations"] == "3.0 MiB per image kept for the backward"
        assert figures["measured"] == (
            "a machine; 2 thread(s); cpu, float32; 4 images a step and process x 1; "
            "30 of 30 steps; 64 of 1000 images"
        )
        assert figures["advice"] == advise(PROFILE)

    def test_table_of_several_gpus_and_special_steps(self):
        text = format_profile(
            profile_with(
                num_processes=2,
                device="cuda",
                free_step_ms=160.0,
                num_chunks=4,
                is_frozen=True,
                queues_wait=True,
                config_batch_size=64,
            )
        )
        assert "one process" not in text
        assert "50 images/s of 2 processes" in text
        assert "0.25 keep up with the step of each process" in text
        assert "1,024.0 MiB allocated" in text
        assert text.splitlines()[-2].endswith(
            "; the config's batch is 64; phases wait for the device (200.0 ms a step, 160.0 "
            "without), and training overlaps the copy; backbone backward computes the forward of "
            "4 chunks again; prototypes still frozen; queues not in use yet"
        )

    def test_csv_holds_the_rows(self):
        rows = list(csv.DictReader(io.StringIO(format_csv(PROFILE))))
        assert len(rows) == len(PROFILE.rows) == 13
        assert rows[1] == {
            "part": "loader",
            "phase": "crop",
            "ms_per_image": "6",
            "ms_per_step": "24",
            "percent_of_step": "12",
        }

    def test_picture_has_the_lengths_of_the_rows(self):
        axes = draw_profile(PROFILE).axes[0]
        bars = {bar.get_label(): bar.patches[0] for bar in axes.containers}
        assert {name: bar.get_width() for name, bar in bars.items()} == {
            row.name: row.ms_per_step for row in PROFILE.rows
        }
        ends = [bars["rest"], bars["between processes"]]
        assert [bar.get_x() + bar.get_width() for bar in ends] == pytest.approx([200, 48])
        assert len({bar.get_facecolor() for bar in bars.values()}) == len(bars)


class TestAdvice:
    def test_what_dominates(self):
        assert advise(PROFILE) == (
            "the step, not its loader, sets the pace; backbone takes 50 %: that is the work "
            "itself; on a GPU --amp and --compile make it faster."
        )
        step_ms = PROFILE.step_ms | {phases.COMMUNICATION: 900.0}
        assert "communication takes 82 %: a larger batch" in advise(
            replace(PROFILE, step_ms=step_ms)
        )

    def test_a_loader_in_the_training_process(self):
        assert advise(profile_with(num_workers=0)) == (
            "the loader adds 20 % to every step, because train_dataloader.num_workers=0; set it "
            "to 1."
        )
        assert "sets the pace" in advise(profile_with(num_workers=0, free_step_ms=1000.0))

    def test_too_few_workers(self, tmp_path):
        text = advise(
            profile_with(num_workers=4, num_small=6, data=str(tmp_path), free_step_ms=8.0)
        )
        assert text == (
            "the loader is the bottleneck: it needs 5.0 cores to keep up, but "
            "train_dataloader.num_workers=4; give it 5 cores and as many workers, pack the data "
            "with `python -m mmssprl pack`, fewer than 6 small views (reading and decoding is "
            "30 % of it)."
        )

    def test_too_few_cores_and_packed_already(self):
        text = advise(profile_with(cores=2.0, free_step_ms=10.0))
        assert "needs 4.0 cores to keep up, but each process has 2 cores" in text
        assert "pack" not in text
        assert "small views" not in text

    def test_a_slow_disk(self):
        text = advise(profile_with(num_workers=1, free_step_ms=8.0, loader={"wall_over_cpu": 3}))
        assert text.endswith(
            "; loading took 3.0 x its CPU time: the disk is slow or the cores are busy."
        )


class TestProfileTraining:
    @pytest.fixture(scope="class")
    def measured(self, images, tmp_path_factory):
        lines = []
        patch = pytest.MonkeyPatch()
        empty = tmp_path_factory.mktemp("cwd")
        patch.chdir(empty)
        random = torch.get_rng_state()
        profile = profile_training(CONFIG, data=images, steps=5, log=lines.append)
        patch.undo()
        assert torch.equal(torch.get_rng_state(), random)
        assert list(empty.iterdir()) == []
        return profile, lines

    def test_measures_every_phase(self, measured):
        profile, _ = measured
        assert list(profile.step_ms) == list(phases.PHASES)
        zero = [name for name, ms in profile.step_ms.items() if ms <= 0]
        assert zero == [phases.COMMUNICATION]
        assert profile.free_step_ms == sum(profile.step_ms.values())
        assert (profile.num_steps, profile.asked_steps) == (5, 5)
        assert profile.peak_bytes > profile.activation_bytes > 0

    def test_describes_the_setting(self, measured, images):
        setting = measured[0].setting
        assert setting.config == str(CONFIG)
        assert setting.num_images == 12
        assert (setting.batch_size, setting.config_batch_size) == (2, 32)
        assert (setting.num_processes, setting.num_workers) == (1, 0)
        assert (setting.is_frozen, setting.queues_wait) == (False, False)
        assert (setting.device, setting.precision) == ("cpu", "float32")

    def test_says_how_far_it_is_and_that_the_batch_is_smaller(self, measured):
        _, lines = measured
        assert lines[0] == (
            "2 images a step: the config's 32 could take minutes on a CPU; --batch-size sets the "
            "number"
        )
        assert any(line.startswith("step 1 of 5, at most ") for line in lines)

    def test_stops_in_time(self, images):
        lines = []
        profile = profile_training(
            CONFIG, data=images, steps=50, batch_size=3, time_limit_s=0, log=lines.append
        )
        assert (profile.num_steps, profile.setting.batch_size) == (1, 3)
        assert lines[-1] == "only 1 of 50 steps fit into 0 s"

    def test_first_epoch_is_told(self, images):
        options = {"model.head.freeze_epochs": 1, "model.head.queue_length": 64}
        profile = profile_training(CONFIG, data=images, steps=1, cfg_options=options)
        assert profile.setting.is_frozen
        assert profile.setting.queues_wait

    def test_activations_do_not_depend_on_the_steps(self, measured, images):
        again = profile_training(CONFIG, data=images, steps=1)
        assert again.activation_bytes == measured[0].activation_bytes

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"steps": 0}, r"--steps must be >= 1 with launcher 'none', but got 0"),
            ({"launcher": "pytorch", "steps": 1}, r"--steps must be >= 2 with launcher 'pytorch'"),
            ({"batch_size": 0}, r"--batch-size must be >= 1, but got 0"),
            (
                {"batch_size": 13},
                r"1 process\(es\) x 13 images and 12 images in .*; lower --batch-size",
            ),
            (
                {"batch_size": 3, "cfg_options": {"model.num_chunks": 2}},
                r"batch_size must be a multiple of model\.num_chunks, but got 3 and 2",
            ),
            ({"amp": True}, r"--amp needs an accelerator"),
        ],
    )
    def test_mistakes(self, images, arguments, message):
        with pytest.raises(ValueError, match=message):
            profile_training(CONFIG, data=images, **arguments)

    def test_no_data(self, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"missing; correct the path, or give .*--data"):
            profile_training(CONFIG, data=tmp_path / "nowhere")
        with pytest.raises(ValueError, match=r"must hold images"):
            profile_training(CONFIG, data=tmp_path)

    def test_other_data_sets(self):
        options = {"train_dataloader.dataset": {"_delete_": True, "type": "ToyData"}}
        with pytest.raises(ValueError, match=r"must be 'UnlabeledImages'.*, but got ToyData"):
            profile_training(CONFIG, cfg_options=options)

    def test_other_configs(self, images):
        config = shipped("configs/benchmarks/classification/linear_resnet18_scenes.py")
        with pytest.raises(ValueError, match=r"must be a pre-training config .* but .*MultiLabel"):
            profile_training(config, data=images)


class TestBatchSize:
    def cfg(self, batch_size, num_chunks=1):
        return Config(
            {"model": {"num_chunks": num_chunks}, "train_dataloader": {"batch_size": batch_size}}
        )

    def test_on_a_cpu_two_images_or_one_per_chunk(self, monkeypatch):
        monkeypatch.setattr("mmssprl.profiling.parts.get_device", lambda: "cpu")
        assert choose_batch_size(self.cfg(64), None) == 2
        assert choose_batch_size(self.cfg(64, num_chunks=8), None) == 8
        assert choose_batch_size(self.cfg(1), None) == 1
        assert choose_batch_size(self.cfg(64), 5) == 5

    def test_on_a_gpu_the_configs(self, monkeypatch):
        monkeypatch.setattr("mmssprl.profiling.parts.get_device", lambda: "cuda")
        assert choose_batch_size(self.cfg(64), None) == 64
        assert choose_batch_size(self.cfg(64), 5) == 5


@pytest.mark.parametrize(
    "name", sorted(path.name for path in shipped("configs/ssprl").glob("ssprl*.py"))
)
def test_every_shipped_pretraining_config_is_taken(name, images):
    with DefaultScope.overwrite_default_scope("mmssprl"):
        cfg = read_config(
            shipped(f"configs/ssprl/{name}"),
            data=images,
            amp=False,
            compile=True,
            cfg_options={"train_dataloader.num_workers": 3},
            launcher="none",
        )
    assert cfg.train_dataloader.dataset.data_root == str(images)
    assert cfg.train_dataloader.num_workers == 3
    assert cfg.model.compile_backbone
    assert cfg.model.data_preprocessor.compile
