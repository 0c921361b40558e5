"""A `compare` that is killed: what is left of it?"""

import random
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil

from mmssprl.datasets.scenes.generate import generate_scenes

from .base import Log, Outcome

_MOST_S = 6.0
"""After its start, within which a process loads torch, builds its training and begins to train."""
_ALLOWED_S, _START_S = 10.0, 120.0


def killed_compare(log: Log, tries: int = 4) -> Outcome:
    """Kill `compare` at moments that are spread over the start of what it has started."""
    draw, survived, slowest = random.Random(0), 0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        generate_scenes(f"{folder}/scenes", num_train=24, num_val=12, size_px=64)
        command = [sys.executable, "-m", "mmssprl", "compare", "--methods", "swav", "--seeds", "1"]
        command += ["--data", f"{folder}/scenes/coco", "--epochs", "1", "--batch-size", "8"]
        command += ["--size", "scenes", "--work-dir", f"{folder}/work"]
        for _ in range(tries):
            with Path(folder, "log.txt").open("a") as file:
                parent = subprocess.Popen(command, stdout=file, stderr=file)
            children = _wait_for_children(parent)
            time.sleep(draw.uniform(0, _MOST_S))
            parent.kill()
            start = time.monotonic()
            parent.wait()
            _, alive = psutil.wait_procs(children, _ALLOWED_S)
            seconds = time.monotonic() - start
            for child in alive:
                child.kill()
            survived += bool(children) and not alive
            slowest = max(slowest, seconds)
            log(f"{len(children)} of its processes, {len(alive)} left after {seconds:.1f} s")
    remark = f"the processes that it has started are gone after {slowest:.1f} s at most"
    return Outcome("compare killed by -9", tries, survived, "0", remark)


def _wait_for_children(parent: subprocess.Popen) -> list[psutil.Process]:
    """Return what it has started, once the first of its runs is among them."""
    end = time.monotonic() + _START_S
    while time.monotonic() < end and parent.poll() is None:
        with suppress(psutil.Error):  # one that ends meanwhile, such as git
            children = psutil.Process(parent.pid).children(recursive=True)
            if any("mmssprl.experiments.compare.pace" in child.cmdline() for child in children):
                return children
        time.sleep(0.05)
    return []
