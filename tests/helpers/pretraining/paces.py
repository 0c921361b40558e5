"""A pace of training that nothing had to be timed for."""

from dataclasses import replace
from pathlib import Path

from mmssprl.runs.forecast import Forecast, Pace

PACE = Pace(
    step_s=0.5,
    num_timed=8,
    batch_size=8,
    memory_bytes=1.44e9,
    checkpoint_bytes=180_000_000,
    backbone_bytes=45_000_000,
    device="cpu",
    cpu_s=0.4,
)
FORECAST = Forecast(PACE, 4, 6, {"interval": 1}, Path())


def stub_pace(monkeypatch, **changes):
    """Make `pretrain` believe that a step takes this."""
    pace = replace(PACE, **changes)
    monkeypatch.setattr("mmssprl.runs.forecast.measure_pace", lambda cfg, **options: pace)
