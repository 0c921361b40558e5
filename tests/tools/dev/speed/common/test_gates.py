"""Rows and the table of gates that judges them."""

import math

import pytest

from tools.dev.speed.common.gates import GATES, Gate, Row, measured


@pytest.mark.parametrize(
    ("better", "value", "passed"),
    [
        ("higher", 1.9, False),
        ("higher", 2.0, True),
        ("lower", 2.1, False),
        ("lower", 2.0, True),
        ("lower", math.nan, False),
        ("higher", math.nan, False),
    ],
)
def test_equal_to_the_gate_is_enough(better, value, passed):
    row = measured("A", value, info=Gate("what", "x", 2.0, better))
    assert row.passed is passed


def test_a_row_without_gate_neither_passes_nor_fails():
    for row in (measured("loader", 5.0), measured("C1", 5.0, gates=False)):
        assert row.passed is None


def test_measured_takes_the_number_and_its_quartiles():
    assert measured("C6", 3, note="Exact.") == Row("C6", GATES["C6"], 3, None, "Exact.")
    assert measured("C1", 12.5, 11.0, 13.0) == Row("C1", GATES["C1"], 12.5, (11.0, 13.0))
    with pytest.raises(KeyError, match="C99"):
        measured("C99", 1)


def test_every_gate_keeps_its_bound():
    bounds = {
        name: (gate.gate, gate.better) for name, gate in GATES.items() if gate.gate is not None
    }
    assert bounds == {
        "C1": (10, "higher"),
        "C2": (4, "higher"),
        "C3": (3, "lower"),
        "C5": (0.26, "lower"),
        "C6": (4, "lower"),
        "C7": (0.42, "higher"),
        "C8": (1.10, "lower"),
        "C9": (0, "lower"),
        "C10": (4, "lower"),
        "C12": (1e-6, "lower"),
        "C13": (3, "higher"),
        "C14_crop": (0.99, "higher"),
        "C14_jitter": (2 / 255, "lower"),
        "C14_blur": (0.99, "higher"),
        "C14_draws": (0.01, "higher"),
        "start_folder": (10, "lower"),
        "worker_growth": (1, "lower"),
        **dict.fromkeys(("G1", "G1-34", "G1-compiled", "G1-34-compiled"), (0.90, "higher")),
        **dict.fromkeys(("G2", "G2-compiled"), (550, "higher")),
        "G6": (0.10, "lower"),
        "G6-compiled": (0.04, "lower"),
        **dict.fromkeys(("C14", "C14-compiled"), (2, "lower")),
        "G7": (0.95, "higher"),
        "G9": (0, "lower"),
        "G10": (pytest.approx(1.35 * 318), "lower"),
    }
