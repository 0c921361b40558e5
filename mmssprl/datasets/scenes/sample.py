"""The sample data of demo and benchmark, of one size, so that their figures can be compared."""

import shutil
from collections.abc import Callable
from pathlib import Path

from .generate import META_FILE, generate_scenes

NUM_TRAIN, NUM_VAL, SIZE_PX = 1200, 600, 96


def generate_sample(work_dir: Path, log: Callable[[str], object] = lambda line: None) -> Path:
    """Generate the sample data in ``work_dir/scenes``, or find them there; return their folder.

    The folder is of our own: what was left half-made in it is deleted.
    """
    folder = work_dir / "scenes"
    if not (folder / META_FILE).exists():
        shutil.rmtree(folder, ignore_errors=True)
    log(f"scenes: {NUM_TRAIN} + {NUM_VAL} images of {SIZE_PX} px")
    return generate_scenes(folder, num_train=NUM_TRAIN, num_val=NUM_VAL, size_px=SIZE_PX)
