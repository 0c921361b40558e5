"""Small images, folders of them, and tar files of folders."""

import os
import subprocess

import numpy as np
import torch
from PIL import Image

from mmssprl.registry import DATASETS

CROP = {"type": "PyramidCrop", "layout": {"image_px": 8, "levels": []}}


def save(path, value=0, size=(20, 16)):
    path.parent.mkdir(parents=True, exist_ok=True)
    image = np.full((*size, 3), value, np.uint8)
    image[:, :, 0] = np.arange(size[1])
    Image.fromarray(image).save(path)


def folder(root, num_images, bad=()):
    """Images 00.png, 01.png, ... whose green is their index; the bad ones are cut off."""
    for i in range(num_images):
        path = root / f"{i:02}.png"
        save(path, i)
        if i in bad:
            path.write_bytes(path.read_bytes()[:60])
    return root


def build(root, **options):
    return DATASETS.build({"type": "UnlabeledImages", "data_root": str(root), **options})


def names(dataset, root):
    paths = [dataset.get_data_info(i)["img_path"] for i in range(len(dataset))]
    return [os.path.relpath(path, root) for path in paths]


def greens(items):
    return [int(item["img"][1, 0, 0]) for item in items]


def coordinates(height, width):
    """R is the column, G the row, B a constant."""
    image = torch.full((3, height, width), 7, dtype=torch.uint8)
    image[0] = torch.arange(width)
    image[1] = torch.arange(height)[:, None]
    return image


def make_tar(tar, folder, *options, inside=False):
    """Make a tar file of a folder, or of what is inside it."""
    tar.parent.mkdir(parents=True, exist_ok=True)
    what = [folder, "."] if inside else [folder.parent, folder.name]
    order = "--sort=name"  # or it would be that of the file system
    subprocess.run(["tar", "cf", tar, order, *options, "-C", *what], check=True)
    return tar


def turned(image, orientation):
    """What a camera stores so that the viewer shows ``image`` (EXIF 2.3, 4.6.4 A); the tag."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    ways = ("FLIP_LEFT_RIGHT", "ROTATE_180", "FLIP_TOP_BOTTOM")
    ways += ("TRANSPOSE", "ROTATE_90", "TRANSVERSE", "ROTATE_270")
    if orientation > 1:
        image = image.transpose(Image.Transpose[ways[orientation - 2]])
    return image, exif


def lock_folders(monkeypatch, name="locked"):
    """Let folders of a name not be listed, as for another user."""
    scandir = os.scandir

    def refuse(path):
        if str(path).endswith(name):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
