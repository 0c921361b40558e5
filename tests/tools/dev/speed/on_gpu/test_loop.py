"""The real loop of the runner on a made-up device, with a clock that counts steps."""

import pytest
from fake_gpu import WORKLOAD
from image_folders import folder

from mmssprl.pyramid import ViewLayout
from tools.dev.speed.common.models import random_batch
from tools.dev.speed.on_gpu.loop import WatchHook, train_from_jpeg


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
    watch = WatchHook(meter, WORKLOAD, data)
    return train_from_jpeg(tiny, tmp_path / "runs", watch), watch


def test_the_real_loop_is_guarded_and_timed_where_it_should_be(tiny, tmp_path, stepped):
    waits, found = run_loop(tiny, tmp_path, stepped)
    assert (waits, found.guarded) == ("", WORKLOAD.guarded)
    # Every step takes one second of this clock: two images per second.
    assert found.jpeg_rate == pytest.approx(2)
    assert found.synthetic_rates == pytest.approx([2, 2])
    assert stepped.states == [(False, True)] * len(stepped.states)  # free, with queues
    synthetic = ["step"] * (WORKLOAD.warmup + WORKLOAD.synthetic)
    epoch = ["step"] * 2 + ["forbid True"] + ["step"] * 3 + ["forbid False"] + ["step"] * 3
    assert stepped.log == [*synthetic, *epoch, *synthetic, "forbid False"]


def test_a_wait_is_named(tiny, tmp_path, stepped, monkeypatch):
    forbidden = []
    monkeypatch.setattr(stepped, "forbid_waiting", forbidden.append)
    step_ended = stepped.step_ended

    def wait_for_the_device() -> None:
        step_ended()
        if forbidden and forbidden[-1]:
            raise RuntimeError("called a synchronizing CUDA operation\nmore")

    monkeypatch.setattr(stepped, "step_ended", wait_for_the_device)
    waits, found = run_loop(tiny, tmp_path, stepped)
    assert waits.startswith("called a synchronizing CUDA operation (")
    assert "mmengine" in waits or "runner" in waits
    assert found.guarded == 0
    assert forbidden == [True, False]


def test_other_errors_of_the_loop_pass_through(tiny, tmp_path, stepped, monkeypatch):
    def fail() -> None:
        raise RuntimeError("something else")

    monkeypatch.setattr(stepped, "step_ended", fail)
    with pytest.raises(RuntimeError, match="something else"):
        run_loop(tiny, tmp_path, stepped)
    assert stepped.log[-1] == "forbid False"


def test_the_watch_runs_after_all_other_hooks():
    assert WatchHook.priority == "LOWEST"
