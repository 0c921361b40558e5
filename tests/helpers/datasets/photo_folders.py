"""Folders of small photographs."""

from PIL import Image


def write_photos(folder, count=40, size=(64, 48)):
    """Write images of one colour each; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(count):
        Image.new("RGB", size, (i, 2 * i, 3 * i)).save(folder / f"{i}.png")
    return folder
