import math
import multiprocessing
import os
import time

import pytest
import torch

from tools.dev.speed import gpu, gpu_steps
from tools.dev.speed.gates import GATES, measured
from tools.dev.speed.models import shipped_config
from tools.dev.speed.runs import run_config

CPU = torch.device("cpu")


@pytest.fixture
def tiny():
    cfg = run_config(28, train_dataloader__batch_size=2)
    cfg.optim_wrapper.optimizer.lr = 0.1
    cfg.log_level = "ERROR"
    return cfg


def rows_of(rows):
    return {row.id: row for row in rows}


def test_synthetic_rows_on_a_cpu(tiny, monkeypatch):
    monkeypatch.setattr(gpu, "equivalent_crops", lambda num_crops: 4.0)
    part = gpu.PARTS["28 crops, eager"]
    rows = rows_of(gpu.synthetic_rows(part, tiny, CPU, 2, quick=True))
    assert {*part.ids, "plain", "images"} == {*rows}
    assert (rows["G2"].judged.gate, rows["G2"].passed) == (None, None)  # no H200
    assert 0 < rows["G6"].value < 1
    # G1 is ours in crops over the plain one's.
    assert rows["images"].value * 4 == pytest.approx(rows["G1"].value * rows["plain"].value)
    assert "8 a step" in rows["G1"].note


class Watch(gpu_steps.WatchHook):
    """Few steps, of which none is forbidden to wait: that takes a GPU."""

    warmup, to_guard, synthetic = 2, 3, 1

    def __init__(self, *given, drained, timed):
        super().__init__(*given, drained=1, timed=2)

    def forbid_waiting(self, forbidden):
        pass


def test_rows_of_the_real_loop_on_a_cpu(tiny, monkeypatch):
    monkeypatch.setattr(gpu, "WatchHook", Watch)
    monkeypatch.setattr(gpu, "_NUM_FILES", 2)
    part = gpu.PARTS["28 crops from JPEG"]
    rows = rows_of(gpu.jpeg_rows(part, tiny, CPU, 2, quick=True, workers=0))
    assert {*rows} == {"G9", "G7"}
    assert rows["G9"].passed
    assert rows["G7"].value > 0


def test_a_plain_step_trains_in_the_precision_of_the_config(tiny):
    tiny.optim_wrapper.type = "AmpOptimWrapper"
    side = gpu_steps.PlainResNet(tiny, CPU, 2)
    kinds = []
    side.model[0].register_forward_hook(lambda *args: kinds.append(args[-1][-1].dtype))
    before = [p.detach().clone() for p in side.model.parameters()]
    side.step()
    changed = [not torch.equal(p, q) for p, q in zip(before, side.model.parameters(), strict=True)]
    assert sum(changed) > 60
    assert kinds == [torch.bfloat16]
    assert side.crops.is_contiguous(memory_format=torch.channels_last)


def send(sender, what):
    sender.send(measured("G7", 0.99))
    if what == "sleep":
        time.sleep(60)
    if what == "die":
        os._exit(3)
    sender.send(what)


@pytest.mark.parametrize(
    ("what", "reason"), [("sleep", "stopped after 3 s"), ("die", "ended with 3"), ("full", "full")]
)
def test_a_part_that_fails_or_takes_too_long_costs_its_own_rows_only(what, reason, monkeypatch):
    fork = multiprocessing.get_context("fork")  # imports nothing anew
    monkeypatch.setattr(gpu.multiprocessing, "get_context", lambda kind: fork)
    part = gpu.PARTS["28 crops from JPEG"]._replace(limit_s=3)
    lines = []
    rows = rows_of(gpu.run_part(part, send, (what,), lines.append))
    assert rows["G7"].passed
    assert math.isnan(rows["G9"].value)
    assert rows["G9"].passed is False
    assert reason in rows["G9"].note
    assert lines[0].startswith("G7: 0.99")


def test_every_gate_belongs_to_one_part_of_a_shipped_config():
    ids = [row_id for part in gpu.PARTS.values() for row_id in part.ids]
    gates = [name for name, gate in GATES.items() if gate.gate is not None]
    assert sorted(ids) == sorted(name for name in gates if name.startswith("G"))
    for part in gpu.PARTS.values():
        layout = gpu.ViewLayout.build(shipped_config(part.crops).model.layout)
        assert layout.num_crops == part.crops
        assert all(("compiled" in row_id) == part.compiled for row_id in part.ids)
