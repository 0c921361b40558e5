"""The parts of a GPU's run: which rows they give, and what a failure costs."""

import pytest
import torch
from fake_gpu import workload

from tools.dev.speed.common import gates
from tools.dev.speed.common.gates import measured
from tools.dev.speed.on_gpu.measures import Pretraining
from tools.dev.speed.on_gpu.parts import Part, all_parts, run_parts


def test_parts_on_a_device_of_the_cpu(tiny, tmp_path, stepped):
    stepped.peak = 900_000_000
    parts = [part for part in all_parts(quick=True) if part.name != "34 crops, eager"]
    lines = []
    found = run_parts(stepped, workload(tiny), parts, lines.append)
    rows = {row.id: row for row in found}
    # One second a step of 2 images; the clock does not move for the plain ResNet: infinite crops.
    assert rows["G2"].value == pytest.approx(2)
    assert rows["G2"].judged == gates.GATES["G2"]
    assert not rows["G2"].passed
    assert rows["G10"].value == pytest.approx(450)
    assert rows["G9"].value == 0
    assert rows["G9"].passed
    assert rows["G7"].value == pytest.approx(1)
    assert rows["G6"].value == 0
    assert "not measured" in rows["G1"].note.lower()
    assert "ZeroDivisionError" in rows["G1"].note
    assert not rows["G1"].passed
    assert rows["loader"].value > 0
    assert lines[0] == "part 1 of 2: 28 crops, eager"


def test_losses_that_are_not_finite_are_no_measurement(tiny, meter, monkeypatch):
    step = Pretraining.step

    def spoilt(self) -> None:
        step(self)
        self.losses["loss"] = torch.tensor(float("nan"))

    monkeypatch.setattr(Pretraining, "step", spoilt)
    parts = all_parts(quick=True)[:1]
    rows = run_parts(meter, workload(tiny), parts, lambda line: None)
    assert [row.passed for row in rows] == [False] * len(parts[0].ids)
    assert all("RuntimeError: all losses must be finite" in row.note for row in rows)


def test_a_part_that_fails_costs_its_own_rows_only(tiny, meter):
    def fail(*given):
        yield measured("G10", 400.0)
        raise RuntimeError("broken\nmore")

    def work(*given):
        yield measured("G7", 0.99)

    def fill(*given):
        raise torch.cuda.OutOfMemoryError("too large")

    parts = [
        Part("a", ("G10", "G1"), fail),
        Part("b", ("G7",), work),
        Part("c", ("G1-34",), fill),
    ]
    rows = {row.id: row for row in run_parts(meter, workload(tiny), parts, lambda line: None)}
    assert rows["G10"].passed
    assert rows["G1"].note == "Not measured: RuntimeError: broken."
    assert rows["G7"].passed
    assert rows["G1-34"].note.startswith("Not measured: out of memory with 2 images; name fewer")
    assert rows["G1"].passed is False


def test_g2_judges_an_h200_only(tiny, stepped):
    given = workload(tiny, gate_2=False)
    rows = run_parts(stepped, given, all_parts(quick=True)[:1], lambda line: None)
    (row,) = [row for row in rows if row.id == "G2"]
    assert (row.judged.gate, row.passed) == (None, None)
    assert row.note == "B = 2. The gate is for an H200."


def test_every_gate_belongs_to_one_part():
    ids = [row_id for part in all_parts(quick=False) for row_id in part.ids]
    assert sorted(ids) == sorted(name for name, gate in gates._GPU.items() if gate.gate is not None)
    assert {row_id.split("-")[0] for row_id in ids} == {"C14", "G1", "G2", "G6", "G7", "G9", "G10"}
    assert not [i for part in all_parts(quick=True) for i in part.ids if "compiled" in i]
