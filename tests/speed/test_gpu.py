"""The bookkeeping of gpu.py on a made-up device: clock, memory and waits are scripted."""

import itertools
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import gpu
import gpu_measures
import pytest
import torch
from gpu_gates import GATES, Gate
from gpu_loop import LoopResult, LoopSizes, WatchHook, train_from_jpeg, write_list
from gpu_measures import (
    PlainResNet,
    Pretraining,
    Sizes,
    against_plain,
    augmentation_difference,
    augmentation_share,
    images_per_second,
    peak_bytes_per_image,
    synthetic_batch,
)
from gpu_meter import OutOfTimeError, alternate, time_limit, with_room
from gpu_parts import Part, Session, Setting, all_parts, run_parts
from image_folders import folder
from mmengine.config import Config
from operator_counts import device_path

from mmssprl.functional.photometric import apply_photometric
from mmssprl.pyramid import ViewLayout

SIZES = Sizes(rounds=3, repeats=4, warmup=1)
LOOP = LoopSizes(batch=2, warmup=2, guarded=3, drained=1, timed=2, synthetic=1, workers=0)
RUNTIME = Path(__file__).resolve().parents[2] / "configs" / "_base_" / "default_runtime.py"
# Eight channels: with four, oneDNN's channels-last backward writes out of bounds (torch 2.11).
TINY = """
layout = dict(image_px=32, levels=[dict(grid=2, resize_px=64, patch_px=16)])
model = dict(
    type="SSPRL",
    layout=layout,
    backbone=dict(type="ResNet", depth=18, stem_channels=8, base_channels=8),
    neck=dict(type="MultiHeadNeck", in_channels=64, hid_channels=8, out_channels=8),
    head=dict(type="SinkhornHead", in_channels=8, num_prototypes=20, num_patch_prototypes=10),
)
train_dataloader = dict(
    batch_size=2, num_workers=0, drop_last=True,
    sampler=dict(type="DefaultSampler", shuffle=True),
    collate_fn=dict(type="default_collate"),
    dataset=dict(type="UnlabeledImages", data_root="not_there",
                 pipeline=[dict(type="PyramidCrop", layout=layout)]),
)
optim_wrapper = dict(type="OptimWrapper", optimizer=dict(type="LARC", lr=0.1))
train_cfg = dict(type="EpochBasedTrainLoop", max_epochs=3)
launcher = "none"
"""


class FakeMeter:
    """A device whose clock moves only when a test says so."""

    def __init__(self, peak: int = 0) -> None:
        self.device = torch.device("cpu")
        self.now = 0.0
        self.peak = peak
        self.log: list[str] = []

    def mark(self) -> float:
        return self.now

    def seconds_between(self, start: float, end: float) -> float:
        return end - start

    def reset_peak(self) -> None:
        self.log.append("reset")

    def peak_bytes(self) -> int:
        self.log.append("read")
        return self.peak

    def free(self) -> None:
        self.log.append("free")

    def forbid_waiting(self, forbidden: bool) -> None:
        self.log.append(f"forbid {forbidden}")

    def worker(self, *seconds: float, batch: int = 1) -> SimpleNamespace:
        """A side whose steps take these seconds, over and over."""
        pace = itertools.cycle(seconds)

        def step() -> None:
            self.now += next(pace)

        return SimpleNamespace(step=step, batch=batch)


@pytest.fixture
def meter():
    return FakeMeter()


@pytest.fixture
def tiny():
    base = Config.fromfile(RUNTIME).to_dict()
    return Config({**base, **Config.fromstring(TINY, ".py").to_dict()})


def setting(cfg, **changes):
    given = Setting(
        batch=2,
        sizes=Sizes(rounds=2, repeats=1, warmup=1),
        loop=LOOP,
        num_files=2,
        config=lambda crops, compiled: Config(cfg.to_dict()),
        equivalent=lambda crops: 4.0,
        gate_2=True,
    )
    return replace(given, **changes)


def test_sides_take_turns():
    meter, order = FakeMeter(), []
    sides = {name: lambda name=name: order.append(name) for name in "AB"}
    seconds = alternate(meter, sides, rounds=3, repeats=2)
    assert "".join(order) == "AABB" + "BBAA" + "AABB"
    assert {name: len(values) for name, values in seconds.items()} == {"A": 3, "B": 3}


def test_g1_by_hand(meter):
    # Ours: 2 images in 1 s, each worth 5 crops: 10 crops/s. Plain: 6 crops in 0.5 s: 12 crops/s.
    ours, plain = meter.worker(1.0, batch=2), meter.worker(0.5, batch=6)
    against, plain_rate = against_plain(meter, ours, plain, SIZES, equivalent=5)
    assert against == pytest.approx((10 / 12,) * 3)
    assert plain_rate == pytest.approx((12,) * 3)


def test_g2_is_the_median_over_the_rounds(meter):
    # Rounds of 4 steps: 4 s, 8 s and 2 s for 3 images a step.
    ours = meter.worker(*[1.0] * 4, *[2.0] * 4, *[0.5] * 4, batch=3)
    assert images_per_second(meter, ours, SIZES) == pytest.approx((3, 2.25, 4.5))


def test_g6_counts_the_preprocessor_inside_the_step(meter, tiny):
    model = Pretraining(tiny, meter.device, 2).model
    preprocessor = model.data_preprocessor

    class Slow(torch.nn.Module):
        def forward(self, data, training):
            meter.now += 1.0
            return preprocessor(data, training)

    model.data_preprocessor = Slow()
    data = synthetic_batch(model.layout, 2, meter.device)

    def step() -> None:
        model.data_preprocessor(data, training=True)
        meter.now += 3.0

    ours = SimpleNamespace(model=model, step=step)
    share, milliseconds = augmentation_share(meter, ours, SIZES)
    assert share == pytest.approx((0.25,) * 3)
    assert milliseconds == pytest.approx((1000,) * 3)
    assert not model.data_preprocessor._forward_hooks
    assert not model.data_preprocessor._forward_pre_hooks


def test_c14_is_the_greatest_difference_in_levels(tiny, monkeypatch):
    ours, device = Pretraining(tiny, torch.device("cpu"), 2), []
    with device_path():
        assert augmentation_difference(ours) == 0  # one path on both sides

    def off_by_three_levels(images, params, **settings):
        result = apply_photometric(images, params, **settings)
        device.append("compile" in settings)
        if device == [True, False, True]:  # the second size on the device
            result[0, 0, 1, 5, 7] += 3 / 255 / settings["std"][1]
        return result

    monkeypatch.setattr(gpu_measures, "apply_photometric", off_by_three_levels)
    assert augmentation_difference(ours) == pytest.approx(3, abs=0.01)
    assert device == [True, False] * 2


def test_losses_that_are_not_finite_are_no_measurement(tiny, meter, monkeypatch):
    step = Pretraining.step

    def spoilt(self) -> None:
        step(self)
        self.losses["loss"] = torch.tensor(float("nan"))

    monkeypatch.setattr(Pretraining, "step", spoilt)
    parts = all_parts(quick=True)[:1]
    rows = run_parts(Session(meter, setting(tiny), lambda line: None), parts, 300)
    assert [row.passed for row in rows] == [False] * len(parts[0].ids)
    assert all("RuntimeError: all losses must be finite" in row.note for row in rows)


def test_g10_is_the_peak_of_a_step_after_a_reset():
    meter = FakeMeter(peak=600)
    ours = SimpleNamespace(step=lambda: meter.log.append("step"), batch=4)
    assert peak_bytes_per_image(meter, ours) == 150
    assert meter.log == ["reset", "step", "read"]


def test_memory_that_is_short_halves_the_batch(meter):
    tried, lines = [], []

    def measure(batch: int) -> str:
        tried.append(batch)
        if batch > 3:
            raise torch.cuda.OutOfMemoryError("too large")
        return "fits"

    assert with_room(measure, 12, meter, lines.append) == ("fits", 3)
    assert tried == [12, 6, 3]
    assert meter.log == ["free", "free"]
    assert lines[0] == "out of memory with 12 images: trying 6"

    def never(batch: int) -> None:
        raise torch.cuda.OutOfMemoryError("too large")

    with pytest.raises(torch.cuda.OutOfMemoryError):
        with_room(never, 4, meter, lines.append)


def test_a_part_is_stopped_even_if_it_catches_exceptions():
    start = time.monotonic()

    def stubborn() -> None:
        with time_limit(0.1), suppress(Exception):
            time.sleep(5)

    with pytest.raises(OutOfTimeError, match="stopped after 0 s"):
        stubborn()
    assert time.monotonic() - start < 3
    with time_limit(0.1):
        pass
    time.sleep(0.2)  # the alarm is off


def test_a_real_step_trains_and_a_plain_one_too(tiny):
    device = torch.device("cpu")
    for side in (Pretraining(tiny, device, 2), PlainResNet(tiny, device, 2)):
        before = [p.detach().clone() for p in side.model.parameters()]
        side.step()
        after = list(side.model.parameters())
        assert sum(not torch.equal(p, q) for p, q in zip(before, after, strict=True)) > 60
    assert side.crops.shape == (2, 3, 32, 32)
    assert side.crops.is_contiguous(memory_format=torch.channels_last)
    assert not side.mixed


def test_mixed_precision_is_the_config_s(tiny):
    tiny.optim_wrapper.type = "AmpOptimWrapper"
    plain = PlainResNet(tiny, torch.device("cpu"), 2)
    kinds = []
    plain.model.backbone.register_forward_hook(lambda *args: kinds.append(args[-1][-1].dtype))
    plain.step()
    assert kinds == [torch.bfloat16]


def run_loop(tiny, tmp_path, meter, sizes=LOOP, spare=0):
    images = tmp_path / "images"
    if not images.exists():
        folder(images, 3)
    num_images = sizes.num_steps * sizes.batch + spare
    names = sorted(path.name for path in images.iterdir())
    write_list(tmp_path / "list.txt", names, num_images)
    tiny.train_dataloader.dataset.update(
        data_root=str(tmp_path), data_prefix="images", ann_file="list.txt"
    )
    data = synthetic_batch(ViewLayout.build(tiny.model.layout), sizes.batch, meter.device)
    return train_from_jpeg(meter, tiny, sizes, tmp_path / "runs", data)


class SteppedMeter(FakeMeter):
    """Its clock moves by one second whenever a model's step has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.states = []

    def step_ended(self) -> None:
        self.now += 1.0
        self.log.append("step")


@pytest.fixture
def stepped(monkeypatch):
    from mmssprl.models import SSPRL

    meter = SteppedMeter()
    train_step = SSPRL.train_step

    def counted(self, *args, **options):
        meter.states.append((self.head.is_frozen, self.head.uses_queues))
        losses = train_step(self, *args, **options)
        meter.step_ended()
        return losses

    monkeypatch.setattr(SSPRL, "train_step", counted)
    return meter


def test_the_real_loop_is_guarded_and_timed_where_it_should_be(tiny, tmp_path, stepped):
    found = run_loop(tiny, tmp_path, stepped)
    assert (found.waits, found.guarded) == ("", LOOP.guarded)
    # Every step takes one second of this clock: two images per second.
    assert found.jpeg_rate == pytest.approx(2)
    assert found.synthetic_rates == pytest.approx([2, 2])
    assert stepped.states == [(False, True)] * len(stepped.states)  # free, with queues
    synthetic = ["step"] * (LOOP.warmup + LOOP.synthetic)
    epoch = ["step"] * 2 + ["forbid True"] + ["step"] * 3 + ["forbid False"] + ["step"] * 3
    assert stepped.log == [*synthetic, *epoch, *synthetic, "forbid False"]


def test_a_wait_is_named_and_the_rest_is_measured_without_the_guard(
    tiny, tmp_path, stepped, monkeypatch
):
    forbidden = []
    monkeypatch.setattr(stepped, "forbid_waiting", forbidden.append)
    step_ended = stepped.step_ended

    def wait_for_the_device() -> None:
        step_ended()
        if forbidden and forbidden[-1]:
            raise RuntimeError("called a synchronizing CUDA operation\nmore")

    monkeypatch.setattr(stepped, "step_ended", wait_for_the_device)
    found = run_loop(tiny, tmp_path, stepped)
    assert found.waits.startswith("called a synchronizing CUDA operation (")
    assert "mmengine" in found.waits or "runner" in found.waits
    assert found.guarded == 0
    assert found.jpeg_rate == pytest.approx(2)
    assert forbidden.count(True) == 1
    assert forbidden[-1] is False


def test_other_errors_of_the_loop_pass_through(tiny, tmp_path, stepped, monkeypatch):
    def fail() -> None:
        raise RuntimeError("something else")

    monkeypatch.setattr(stepped, "step_ended", fail)
    with pytest.raises(RuntimeError, match="something else"):
        run_loop(tiny, tmp_path, stepped)
    assert stepped.log[-1] == "forbid False"


def test_no_guarded_step_may_be_logged(tiny, tmp_path, meter):
    tiny.default_hooks.logger.interval = 4
    with pytest.raises(ValueError, match="no guarded step may be logged"):
        run_loop(tiny, tmp_path, meter)


def test_the_epoch_must_have_the_planned_steps(tiny, tmp_path, meter):
    with pytest.raises(ValueError, match="must have 8 steps, but the data set gives 9; list 16"):
        run_loop(tiny, tmp_path, meter, spare=2)


def test_the_watch_runs_after_all_other_hooks():
    assert WatchHook.priority == "LOWEST"
    hook = WatchHook(FakeMeter(), LOOP, LoopResult(), lambda runner: 1.0, guard=False)
    for step in range(LOOP.warmup + LOOP.guarded):
        hook.after_train_iter(None, step)
    assert hook.meter.log == []


def test_parts_on_a_device_of_the_cpu(tiny, tmp_path, stepped):
    stepped.peak = 900_000_000
    parts = [part for part in all_parts(quick=True) if part.name != "34 crops, eager"]
    lines = []
    session = Session(stepped, setting(tiny), lines.append)
    rows = {row.id: row for row in run_parts(session, parts, 300)}
    # One second a step of 2 images; the clock does not move for the plain ResNet: infinite crops.
    assert rows["G2"].value == pytest.approx(2)
    assert (rows["G2"].gate, rows["G2"].stretch, rows["G2"].passed) == (550, 800, False)
    assert rows["G10"].value == pytest.approx(450)
    assert rows["G10"].gate == pytest.approx(1.35 * 318)
    assert rows["G9"].value == 0
    assert rows["G9"].passed
    assert rows["G7"].value == pytest.approx(1)
    assert rows["G6"].value == 0
    assert "not measured" in rows["G1"].note.lower()
    assert "ZeroDivisionError" in rows["G1"].note
    assert not rows["G1"].passed
    assert rows["loader"].value > 0
    assert rows["loader_cores"].value == pytest.approx(2 / rows["loader"].value)
    assert any(line.startswith("part 1 of 2: 28 crops, eager, at most 100 s") for line in lines)


def test_a_part_that_fails_costs_its_own_rows_only(tiny, meter):
    def fail(session: Session) -> None:
        session.add("G10", 400.0)
        raise RuntimeError("broken\nmore")

    def hang(session: Session) -> None:
        time.sleep(60)

    def work(session: Session) -> None:
        session.add("G7", 0.99)

    parts = [
        Part("a", 50, ("G10", "G1"), fail),
        Part("b", 5.5, ("G9",), hang),
        Part("c", 50, ("G7",), work),
    ]
    rows = {r.id: r for r in run_parts(Session(meter, setting(tiny), lambda _: None), parts, 60)}
    assert rows["G10"].passed
    assert rows["G1"].note == "Not measured: RuntimeError: broken."
    assert rows["G9"].note == "Not measured: stopped after 6 s."
    assert rows["G7"].passed
    assert [rows[name].passed for name in ("G1", "G9")] == [False, False]


def test_no_part_starts_when_the_time_is_over(tiny, meter):
    part = Part("late", 50, ("G7",), lambda session: pytest.fail("it ran"))
    rows = run_parts(Session(meter, setting(tiny), lambda _: None), [part], 4)
    assert rows[0].note == "Not measured: no time left: 4 s are over."


def test_g2_judges_an_h200_only(tiny, meter):
    session = Session(meter, setting(tiny, gate_2=False), lambda _: None)
    session.add("G2", 100.0, note="B = 2.")
    row = session.rows["G2"]
    assert (row.gate, row.stretch, row.passed) == (None, None, None)
    assert row.note == "B = 2. The gate is for an H200."


def test_a_halved_batch_is_in_the_note(tiny, meter):
    session = Session(meter, setting(tiny, batch=64), lambda _: None)
    assert session.note(64) == "B = 64."
    assert session.note(32) == "B = 32, not 64: out of memory."


def test_every_gate_belongs_to_one_part():
    ids = [row_id for part in all_parts(quick=False) for row_id in part.ids]
    assert sorted(ids) == sorted(GATES)
    assert {row_id.split("-")[0] for row_id in ids} == {"C14", "G1", "G2", "G6", "G7", "G9", "G10"}
    assert not [i for part in all_parts(quick=True) for i in part.ids if "compiled" in i]
    bounds = {name: (g.gate, g.stretch, g.better) for name, g in GATES.items()}
    assert bounds["G1"] == bounds["G1-34-compiled"] == (0.90, None, "higher")
    assert bounds["G2"] == (550, 800, "higher")
    assert bounds["G6"] == (0.10, None, "lower")
    assert bounds["G6-compiled"] == (0.04, None, "lower")
    assert bounds["G7"] == (0.95, None, "higher")
    assert bounds["G9"] == (0, None, "lower")
    assert isinstance(GATES["G1"], Gate)


def test_all_parts_fit_into_the_time():
    assert gpu.TOTAL_S + 40 <= 8 * 60


def test_the_shipped_setting_trains_the_shipped_configs(tmp_path, monkeypatch):
    # Mixed precision needs a GPU to be set up.
    monkeypatch.setattr("mmssprl.engine.launch.get_device", lambda: "cuda")
    monkeypatch.setattr("mmssprl.engine.checks.get_device", lambda: "cuda")
    monkeypatch.setattr("mmssprl.engine.pretrain_checks.get_device", lambda: "cuda")
    monkeypatch.setattr("mmssprl.engine.pretrain_checks._check_compiler", lambda: None)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H200")
    given = gpu.shipped_setting(64, quick=False, folder=tmp_path)
    assert given.gate_2
    for crops, compiled in itertools.product((28, 34), (False, True)):
        cfg = given.config(crops, compiled)
        assert ViewLayout.build(cfg.model.layout).num_crops == crops
        assert bool(cfg.model.get("compile_backbone")) == compiled
        assert cfg.optim_wrapper.type == "AmpOptimWrapper"
        assert cfg.optim_wrapper.dtype == "bfloat16"
        assert cfg.optim_wrapper.optimizer.type == "LARC"
    interval = cfg.default_hooks.logger.interval
    assert given.loop.warmup + given.loop.guarded < interval


def test_without_cuda_there_is_one_line(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu.main(["--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert error == "gpu.py: error: no CUDA device: it measures GPUs only.\n"
    assert not (tmp_path / "out").exists()


def test_main_writes_the_report(capsys, monkeypatch, tmp_path, tiny):
    meter = FakeMeter()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr("gpu_meter.CudaMeter", lambda: meter)
    monkeypatch.setattr("gpu_meter.describe_gpu", lambda: {"gpu": "made up"})
    monkeypatch.setattr(gpu, "shipped_setting", lambda *args: setting(tiny))
    parts = [Part("a", 50, ("G7",), lambda session: session.add("G7", 0.5, note="Made up."))]
    monkeypatch.setattr("gpu_parts.all_parts", lambda quick: parts)
    benchmark = torch.backends.cudnn.benchmark
    try:
        assert gpu.main(["--out", str(tmp_path), "--quick"]) == 0
    finally:
        torch.backends.cudnn.benchmark = benchmark
    text = (tmp_path / "gpu-quick.md").read_text()
    assert "G7: Made up." in text
    assert "| gpu | made up |" in text
    assert (tmp_path / "gpu-quick.csv").is_file()
    assert "1 of 1 gates MISSED: G7" in capsys.readouterr().out
