"""The idle threads of OpenMP."""

import os

IDLE_THREADS_YIELD = {"OMP_WAIT_POLICY": "PASSIVE"}
"""Environment in which they yield the CPU: with six busy processes on two cores, spinning threads
took more than four times the CPU time. libgomp reads it once, when torch is loaded."""


def yield_idle_threads() -> None:
    """Let idle threads yield, in this process if torch is not loaded yet, and in its children."""
    for name, value in IDLE_THREADS_YIELD.items():
        os.environ.setdefault(name, value)
