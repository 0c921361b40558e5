"""Two `embed` on one OUT at a time, and a `compare` that is killed: what is left of them?"""

import random
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import psutil
from PIL import Image

from mmssprl.datasets.scenes.generate import generate_scenes
from mmssprl.features import read_embeddings
from mmssprl.features.embedding import embed_to_file
from mmssprl.features.extract import FeatureOptions

from .base import Log, Outcome
from .training import Child

_IMAGES = 400
_LONGEST_S = 0.25  # between the starts of two `embed`: what one takes, and less
_TOLD = ("one process at a time must write", "the output must not exist yet")
_CONFIG = """
layout = dict(image_px=32)
model = dict(
    type="SSPRL",
    layout=layout,
    backbone=dict(
        type="ResNet", depth=18, stem_channels=8, base_channels=8, num_stages=1,
        strides=(1,), dilations=(1,), out_indices=(0,),
    ),
)
"""
_MOST_S = 6.0
"""After its start, within which a process loads torch, builds its training and begins to train."""
_ALLOWED_S, _START_S = 10.0, 120.0


def two_embeds(log: Log, tries: int = 25) -> Outcome:
    """Start `embed` twice, at spread moments: one must be refused, and each row be there once."""
    draw, survived, num_late = random.Random(0), 0, 0
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root)
        (folder / "config.py").write_text(_CONFIG)
        (folder / "images").mkdir()
        pixels = np.random.default_rng(0)
        for i in range(_IMAGES):
            content = pixels.integers(0, 256, (40, 40, 3), np.uint8)
            Image.fromarray(content).save(folder / "images" / f"{i}.png")
        for number in range(tries):
            is_good, is_late = _embed_twice(folder, number, draw.uniform(0, _LONGEST_S))
            survived += is_good
            num_late += is_late
    log(f"{survived} of {tries}")
    remark = (
        f"one refused, {_IMAGES} rows and no other file left; the second came after the first had "
        f"ended in {num_late}"
    )
    return Outcome("two embed on one OUT", tries, survived, "0", remark)


def _embed_twice(folder: Path, number: int, delay_s: float) -> tuple[bool, bool]:
    """Return whether all is well, and whether the second came too late to meet the first."""
    file, told = folder / f"{number}" / "all.npz", folder / f"{number}.txt"
    file.parent.mkdir()
    options = FeatureOptions(batch_size=1, device="cpu", config=folder / "config.py")
    work = partial(embed_to_file, "random", folder / "images", file, options)
    first = Child(work, told)
    time.sleep(delay_s)
    second = Child(work, told)
    codes = sorted((first.wait(), second.wait()))
    said = [text in told.read_text() for text in _TOLD]
    is_refused = codes == [0, 1] and any(said)
    if not is_refused or [path.name for path in file.parent.iterdir()] != [file.name]:
        return False, False
    names = read_embeddings(file).names
    return len(names) == len(set(names)) == _IMAGES, said[1]


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
