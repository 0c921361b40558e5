"""The real loop of the runner on a made-up device, with a clock that counts steps."""

import pytest
from fake_gpu import WORKLOAD, FakeMeter
from image_folders import folder

from mmssprl.pyramid import ViewLayout
from tools.dev.speed.common.models import random_batch
from tools.dev.speed.on_gpu.loop import LoopResult, WatchHook, train_from_jpeg


def run_loop(tiny, tmp_path, meter):
    images = tmp_path / "images"
    if not images.exists():
        folder(images, 3)
    names = sorted(path.name for path in images.iterdir()) * WORKLOAD.num_steps * WORKLOAD.batch
    (tmp_path / "list.txt").write_text("\n".join(names[: WORKLOAD.num_steps * WORKLOAD.batch]))
    tiny.train_dataloader.dataset.update(
        data_root=str(tmp_path), data_prefix="images", ann_file="list.txt"
    )
    data = random_batch(ViewLayout.build(tiny.model.layout), WORKLOAD.batch, meter.device)
    return train_from_jpeg(meter, tiny, WORKLOAD, tmp_path / "runs", data)


def test_the_real_loop_is_guarded_and_timed_where_it_should_be(tiny, tmp_path, stepped):
    found = run_loop(tiny, tmp_path, stepped)
    assert (found.waits, found.guarded) == ("", WORKLOAD.guarded)
    # Every step takes one second of this clock: two images per second.
    assert found.jpeg_rate == pytest.approx(2)
    assert found.synthetic_rates == pytest.approx([2, 2])
    assert stepped.states == [(False, True)] * len(stepped.states)  # free, with queues
    synthetic = ["step"] * (WORKLOAD.warmup + WORKLOAD.synthetic)
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


def test_the_watch_runs_after_all_other_hooks():
    assert WatchHook.priority == "LOWEST"
    hook = WatchHook(FakeMeter(), WORKLOAD, LoopResult(), lambda runner: 1.0, guard=False)
    for step in range(WORKLOAD.warmup + WORKLOAD.guarded):
        hook.after_train_iter(None, step)
    assert hook.meter.log == []
