"""Signals that stop a training after any step: is anything lost, and is the end bit-equal?"""

import os
import random
import signal
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from mmssprl.engine.launch import prepare_train_config, run
from mmssprl.system.stopping import SAVED, StoppedError, signals

from .children import Child
from .kills import equal, load_state
from .outcome import Outcome, describe_lost
from .tiny import STEPS_PER_EPOCH, write_config

_EPOCHS = 15
_MOST_STEPS = 12
"""Between two stops of a run."""
_SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT, signal.SIGHUP, signal.SIGXCPU)


def at_random(log: Callable[[str], object], stops: int) -> Outcome:
    """Stop trainings again and again, each time after a number of steps that is drawn."""
    draw = random.Random(0)
    lost: list[int] = []
    done = num_failed = num_unequal = 0
    num_runs, stopped_at = 1, 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = write_config(folder, _EPOCHS)
        whole = _start(config, folder / "whole")
        if whole.wait():
            raise RuntimeError(f"the run without a stop has failed, see {folder / 'log.txt'}")
        final = f"epoch_{_EPOCHS}.pth"
        expected = load_state(folder / "whole" / final)
        while True:
            child = _start(config, folder / str(num_runs))
            wanted = draw.randint(1, _MOST_STEPS)
            for _ in child.events() if done < stops else ():
                if child.begun_at is not None and child.steps - child.begun_at >= wanted:
                    os.kill(child.pid, draw.choice(_SIGNALS))
                    break
            status = child.wait()
            if stopped_at and child.begun_at is not None:
                lost.append(max(0, stopped_at - child.begun_at))
            stopped_at = child.steps
            if status:
                done += 1
                if done % 25 == 0:
                    log(f"{done} of {stops} stops, {num_runs} runs")
                if status == SAVED:
                    continue
                num_failed += 1
            else:  # it came to its end, perhaps before the signal
                found = load_state(folder / str(num_runs) / final)
                num_unequal += not equal(found, expected)
                if done >= stops:
                    break
            num_runs, stopped_at = num_runs + 1, 0
    remark = (
        f"{num_failed} did not save or go on, {num_unequal} of {num_runs} ends not bit-equal; "
        f"{_EPOCHS} epochs of {STEPS_PER_EPOCH} steps a run"
    )
    fault = "SIGTERM, SIGUSR1, SIGINT, SIGHUP or SIGXCPU after a random step"
    return Outcome(fault, stops, stops - num_failed - num_unequal, describe_lost(lost), remark)


def _start(config: Path, work_dir: Path) -> Child:
    return Child(partial(_train, config, work_dir), config.parent / "log.txt")


def _train(config: Path, work_dir: Path) -> None:
    cfg = prepare_train_config(config, work_dir=work_dir, resume="auto")
    try:
        with signals.watched():
            run(cfg, "train", go_on=["the", "command"])
    except StoppedError as error:
        os._exit(int(str(error.code)))
