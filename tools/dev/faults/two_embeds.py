"""Two `embed` on one OUT at a time: is one refused, and has the file every row once?"""

import random
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from mmssprl.features import read_embeddings
from mmssprl.features.embedding import embed_to_file
from mmssprl.features.extract import FeatureOptions

from .children import Child
from .outcome import Outcome

_IMAGES = 400
_LONGEST_S = 0.25
"""Between the starts of the two: what one takes, and less."""
_TOLD = ("one process at a time must write", "the output must not exist yet")
CONFIG = """
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


def two_at_once(log: Callable[[str], object], tries: int = 25) -> Outcome:
    """Start the second at moments that are spread over the work of the first."""
    draw, survived, num_late = random.Random(0), 0, 0
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root)
        (folder / "config.py").write_text(CONFIG)
        (folder / "images").mkdir()
        pixels = np.random.default_rng(0)
        for i in range(_IMAGES):
            content = pixels.integers(0, 256, (40, 40, 3), np.uint8)
            Image.fromarray(content).save(folder / "images" / f"{i}.png")
        for number in range(tries):
            is_good, is_late = _try(folder, folder / f"{number}", draw.uniform(0, _LONGEST_S))
            survived += is_good
            num_late += is_late
        log(f"{survived} of {tries}")
    remark = (
        f"one refused, {_IMAGES} rows and no other file left; the second came after the first had "
        f"ended in {num_late}"
    )
    return Outcome("two embed on one OUT", tries, survived, "0", remark)


def _try(folder: Path, out: Path, delay_s: float) -> tuple[bool, bool]:
    """Return whether all is well, and whether the second came too late to meet the first."""
    out.mkdir()
    config, file, told = folder / "config.py", out / "all.npz", folder / f"{out.name}.txt"
    options = FeatureOptions(config=config, batch_size=1, device="cpu")
    work = partial(embed_to_file, "random", folder / "images", file, options)
    first = Child(work, told)
    time.sleep(delay_s)
    second = Child(work, told)
    codes = sorted((first.wait(), second.wait()))
    said = [text in told.read_text() for text in _TOLD]
    is_refused = codes == [0, 1] and any(said)
    if not is_refused or [path.name for path in out.iterdir()] != [file.name]:
        return False, False
    names = read_embeddings(file).names
    return len(names) == len(set(names)) == _IMAGES, said[1]
