"""With how many threads a step on a CPU is fastest."""

import os
import time
from collections.abc import Generator, Iterator
from statistics import median
from typing import Any

import torch
from mmengine.dist import get_world_size

from .stopwatch import Stopwatch

_COMPARING_S = 4.0
"""After it, and after five rounds, no more steps are taken to choose the number of threads."""
_ROUNDS = 5
_LONGEST_S = 20.0
"""After it fewer rounds do: one step of other work's making is then as long as many."""
_LEAST_GAIN = 1.1
"""How many times faster all threads must be than one: beside other work most of what they seem to
gain in a few steps is chance, and what they lose later is not."""


def choose_threads(watch: Stopwatch, batches: Iterator[Any]) -> Generator[Any, None, float | None]:
    """Take steps with all threads and with one in turns, and go on with the faster number.

    Beside other work, and where a container may use less than a core of each thread, the others
    wait for the slowest one, and one alone can be faster. Medians are compared, since other
    work can make a single step ten times as long.

    Args:
        watch: Of the training.
        batches: Endless.

    Returns:
        Median seconds of a step with the chosen number; None where there is no choice: on a
        device, with several processes, or where the user or the config gives the number.
    """
    everything = torch.get_num_threads()
    if everything == 1 or watch.device != "cpu" or get_world_size() > 1:
        return None
    if "OMP_NUM_THREADS" in os.environ or watch.runner.cfg.get("num_threads"):
        return None
    times: dict[int, list[int]] = {everything: [], 1: []}
    start = time.perf_counter()
    while time.perf_counter() - start < (_COMPARING_S if len(times[1]) >= _ROUNDS else _LONGEST_S):
        for number, of_number in times.items():
            torch.set_num_threads(number)
            with watch.clock.step() as phases:
                yield next(batches)
            of_number.append(phases.total())
    of_all, of_one = median(times[everything]), median(times[1])
    chosen, step_ns = (1, of_one) if of_all * _LEAST_GAIN > of_one else (everything, of_all)
    torch.set_num_threads(chosen)
    return step_ns / 1e9
