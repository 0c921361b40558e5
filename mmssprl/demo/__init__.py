"""The demonstration: SS-PRL beside random weights and SwAV on generated scenes, over seeds."""

from .methods import METHODS, RANDOM, SSPRL, SWAV_EPOCHS, SWAV_SMALL_TIME, SWAV_TIME, Method
from .run import claim, run_demo
from .table import epochs_in_equal_time, format_table, write_csv
from .training import Run, execute, warm_up

__all__ = [
    "METHODS",
    "RANDOM",
    "SSPRL",
    "SWAV_EPOCHS",
    "SWAV_SMALL_TIME",
    "SWAV_TIME",
    "Method",
    "Run",
    "claim",
    "epochs_in_equal_time",
    "execute",
    "format_table",
    "run_demo",
    "warm_up",
    "write_csv",
]
