"""SIGKILL in a save and anywhere, and signals that stop: is the run's end bit-equal after them?"""

import os
import random
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from mmssprl.engine.launch import prepare_train_config, run
from mmssprl.system.stopping import SAVED, StoppedError, signals

from .base import Log, Outcome, describe_lost
from .training import STEPS_PER_EPOCH, Child, Runs, Work, train

_EPOCHS, _STOPPED_EPOCHS = 60, 15
"""Of each run that is killed or stopped; when one is complete, the next one begins."""
_DRAWN_SAVES = 3  # a kill is aimed at one of so many saves after a start
_MOST_STEPS = 12  # between two stops of a run
_SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT, signal.SIGHUP, signal.SIGXCPU)

Strike = Callable[[Runs, Child, random.Random], None]
"""Waits for the moment in a child, and strikes; its draws are the same every time."""


def aimed_at_saves(log: Log, kills: int) -> Outcome:
    """Kill at moments that are spread over a save."""

    def strike(runs: Runs, child: Child, draw: random.Random) -> None:
        target, delay = draw.randint(1, _DRAWN_SAVES), draw.uniform(0, 1.2 * runs.save_s)
        for letter in child.events():
            target -= letter == "s"
            if not target:
                time.sleep(delay)
                break
        os.kill(child.pid, signal.SIGKILL)

    return _struck("kill -9 aimed at a save", kills, strike, log)


def at_random(log: Log, kills: int) -> Outcome:
    """Kill at moments from the start of a process to some epochs on."""

    def strike(runs: Runs, child: Child, draw: random.Random) -> None:
        time.sleep(draw.uniform(0, runs.start_s + 8 * runs.epoch_s))
        os.kill(child.pid, signal.SIGKILL)

    return _struck("kill -9 at random", kills, strike, log)


def stops(log: Log, stops: int) -> Outcome:
    """Stop trainings again and again, each time after a number of steps that is drawn."""

    def strike(runs: Runs, child: Child, draw: random.Random) -> None:
        wanted = draw.randint(1, _MOST_STEPS)
        for _ in child.events():
            if child.begun_at is not None and child.steps - child.begun_at >= wanted:
                os.kill(child.pid, draw.choice(_SIGNALS))
                return

    fault = "SIGTERM, SIGUSR1, SIGINT, SIGHUP or SIGXCPU after a random step"
    return _struck(
        *(fault, stops, strike, log), epochs=_STOPPED_EPOCHS, work=_train_watched, status=SAVED
    )


def _struck(
    fault: str,
    times: int,
    strike: Strike,
    log: Log,
    *,
    epochs: int = _EPOCHS,
    work: Work = train,
    status: int = -signal.SIGKILL,
) -> Outcome:
    """Strike trainings again and again; each child that was struck must end with ``status``."""
    draw, lost = random.Random(0), []
    done = stopped_at = num_failed = num_torn = num_unequal = 0
    num_runs = 1
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(Path(folder), epochs, work)
        while True:
            name = f"run_{num_runs}"
            child = runs.start(name)
            if done < times:
                strike(runs, child, draw)
            ended = child.wait()
            if child.begun_at is not None and stopped_at:
                lost.append(max(0, stopped_at - child.begun_at))
            stopped_at = max(stopped_at, child.steps)
            num_torn += runs.num_torn(name)
            if ended == 0:  # it came to its end, perhaps before the strike
                num_unequal += not runs.has_right_end(name)
                if done >= times:
                    break
            else:
                done += 1
                if done % 25 == 0:
                    log(f"{done} of {times}, {num_runs} runs")
                if ended == status:
                    continue
                num_failed += 1
            num_runs, stopped_at = num_runs + 1, 0
    remark = (
        f"{num_failed} did not go on, {num_torn} torn files, {num_unequal} of {num_runs} ends not "
        f"bit-equal; {epochs} epochs of {STEPS_PER_EPOCH} steps a run, a save in each, "
        f"{1000 * runs.save_s:.0f} ms"
    )
    survived = times - min(times, num_failed + num_torn + num_unequal)
    return Outcome(fault, times, survived, describe_lost(lost), remark)


def _train_watched(config: Path, work_dir: Path) -> None:
    cfg = prepare_train_config(config, work_dir=work_dir, resume="auto")
    try:
        with signals.watched():
            run(cfg, "train", go_on=["the", "command"])
    except StoppedError as error:
        os._exit(int(str(error.code)))
