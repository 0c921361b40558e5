"""Rows and the table of gates that judges them."""

import math

import pytest

from tools.dev.speed.common.gates import GATES, Gate, Row, measured


@pytest.mark.parametrize(
    ("better", "value", "passed", "reached"),
    [
        ("higher", 1.9, False, False),
        ("higher", 2.0, True, False),
        ("higher", 3.0, True, True),
        ("lower", 2.1, False, False),
        ("lower", 2.0, True, False),
        ("lower", 1.0, True, True),
        ("lower", math.nan, False, False),
        ("higher", math.nan, False, False),
    ],
)
def test_gate_and_stretch(better, value, passed, reached):
    stretch = 3.0 if better == "higher" else 1.0
    row = measured("A", value, info=Gate("what", "x", 2.0, stretch, better))
    assert (row.passed, row.reached_stretch) == (passed, reached)


def test_a_row_without_gate_neither_passes_nor_fails():
    for row in (measured("tar_ratio", 5.0), measured("C1", 5.0, gates=False)):
        assert row.passed is None
        assert row.reached_stretch is None


def test_measured_takes_the_number_and_its_quartiles():
    assert measured("C6", 3, note="Exact.") == Row("C6", GATES["C6"], 3, None, "Exact.")
    assert measured("C1", 12.5, 11.0, 13.0) == Row("C1", GATES["C1"], 12.5, (11.0, 13.0))
    with pytest.raises(KeyError, match="C99"):
        measured("C99", 1)


def test_every_gate_keeps_its_bound():
    bounds = {
        name: (gate.gate, gate.stretch, gate.better)
        for name, gate in GATES.items()
        if gate.gate is not None
    }
    assert bounds == {
        "C1": (10, 18, "higher"),
        "C2": (4, 10, "higher"),
        "C3": (3, 2, "lower"),
        "C5": (0.26, None, "lower"),
        "C6": (4, None, "lower"),
        "C7": (0.42, 0.55, "higher"),
        "C8": (1.10, 1.03, "lower"),
        "C9": (0, None, "lower"),
        "C10": (4, 3, "lower"),
        "C12": (1e-6, None, "lower"),
        "C13": (3, 6, "higher"),
        "C14_crop": (0.99, None, "higher"),
        "C14_jitter": (2 / 255, None, "lower"),
        "C14_blur": (0.99, None, "higher"),
        "C14_draws": (0.01, None, "higher"),
        "start_folder": (10, None, "lower"),
        "worker_growth": (1, None, "lower"),
        **dict.fromkeys(("G1", "G1-34", "G1-compiled", "G1-34-compiled"), (0.90, None, "higher")),
        **dict.fromkeys(("G2", "G2-compiled"), (550, 800, "higher")),
        "G6": (0.10, None, "lower"),
        "G6-compiled": (0.04, None, "lower"),
        **dict.fromkeys(("C14", "C14-compiled"), (2, None, "lower")),
        "G7": (0.95, None, "higher"),
        "G9": (0, None, "lower"),
        "G10": (pytest.approx(1.35 * 318), None, "lower"),
    }
