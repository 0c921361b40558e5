import os

import numpy as np

from mmssprl.datasets.image_names import ImageNames

NAMES = ["b/ä.jpg", "", "a.png", os.fsdecode(b"\xff.jpg")]


def test_names_come_back_in_their_order():
    names = ImageNames.of(NAMES)
    assert len(names) == 4
    assert list(names) == [names[i] for i in range(4)] == NAMES
    assert names.blob.tobytes() == "b/ä.jpga.png".encode() + b"\xff.jpg"
    assert names.ends.tolist() == [8, 8, 13, 18]
    assert names.ends.dtype == np.int64


def test_no_names():
    names = ImageNames.of([])
    assert list(names) == []
    assert len(names.subset(np.arange(0))) == 0


def test_subset_may_repeat_and_reorder():
    names = ImageNames.of(NAMES).subset(np.array([2, 0, 2, 1]))
    assert list(names) == ["a.png", "b/ä.jpg", "a.png", ""]
    assert names.blob.tobytes() == "a.pngb/ä.jpga.png".encode()
