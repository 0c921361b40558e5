"""LARC against its formula in float64 (C12)."""

from tools.dev.speed.step import larc_check
from tools.dev.speed.step.larc_check import larc_errors
from tools.dev.speed.step.runs import run_config


def test_larc_check_finds_a_wrong_formula(monkeypatch):
    cfg = run_config(28)
    settings = {"weight_decay": 1e-2, "trust": 2e-2}
    assert max(larc_errors(cfg, **settings).values()) <= 1e-6  # C12
    monkeypatch.setattr(larc_check, "_EPS", 1e-3)
    assert max(larc_errors(cfg, **settings).values()) > 1e-2
