"""Maps of small images by a small teacher, and what is kept of them."""

import json
import os

import numpy as np
from PIL import Image

from mmssprl.datasets import UnlabeledImages
from mmssprl.distillation.maps import keep_maps
from mmssprl.distillation.teacher_pass import MAPS, STATE

OWN = "helpers.models.own_nets"
PX = 64
SIZE = 4


def keep(folder, teacher, images, **options):
    return keep_maps(folder, teacher, UnlabeledImages(str(images)), px=PX, size=SIZE, **options)


def read(folder):
    return np.fromfile(folder / MAPS, np.float16).reshape(-1, state_of(folder)["num_cells"], SIZE)


def state_of(folder):
    return json.loads((folder / STATE).read_text())


def write_state(folder, **values):
    (folder / STATE).write_text(json.dumps(state_of(folder) | values))


def save(path, orientation=1):
    """Save noise, which differs by the name, with the time 1 ns, as an archive leaves it."""
    noise = np.random.default_rng(int(path.stem)).integers(0, 256, (24, 32, 3), np.uint8)
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(noise).save(path, **({"exif": exif} if path.suffix == ".jpg" else {}))
    os.utime(path, ns=(1, 1))
