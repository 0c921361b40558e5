"""Spoiled image files are decoded to their size or refused, and nothing worse."""

import os
import time

import numpy as np
import pytest
from helpers.datasets.forged_images import encode

from mmssprl.datasets.image_reading import ImageReadError
from tools.dev.faults import images

pytestmark = pytest.mark.fault


def test_spoiled_files_of_all_formats():
    lines = []
    outcome = images.images(lines.append, tries=200)
    assert outcome.survived == outcome.tries == 200, lines
    assert int(outcome.remark.split()[0]) > 10  # some files are good still


def test_the_fuzz_sees_what_does_not_survive(monkeypatch):
    def faulty(data):
        what = data[-1:]
        if what == b"a":
            os.kill(os.getpid(), 9)
        if what == b"h":
            time.sleep(30)
        if what == b"m":
            np.ones(300 * 2**20, np.uint8)  # more than the process may free meanwhile
        if what == b"r":
            raise ImageReadError("image", "so")
        if what == b"v":
            raise ValueError
        return (24, 24) if what != b"s" else (24, 23)

    monkeypatch.setattr(images, "LIMIT_S", 4.0)
    monkeypatch.setattr(images, "LIMIT_MIB", 100)
    files = [(what, encode("PNG") + what.encode()) for what in "ahmrvsg"]
    found = [(name, answer.kind) for name, answer in images.decoded_apart(files, faulty)]
    assert found == [
        ("a", "ends the process by -9"),
        ("h", "hangs"),
        ("m", "takes too much memory"),
        ("r", "refused"),
        ("v", "raises ValueError()"),
        ("s", "has another size"),
        ("g", "decoded"),
    ]
