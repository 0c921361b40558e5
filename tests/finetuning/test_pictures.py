import itertools

import pytest

from mmssprl.finetuning.tasks.task import written_names


@pytest.mark.parametrize("suffix", [".png", ".jpg"])
def test_each_image_is_written_to_a_file_of_its_own(suffix):
    images = ["a.jpg", "a.png", "a.jpg.png", "a.jpg.jpg", "a.png.png", "b/a.jpg", "b/a.b.jpg"]
    for some in itertools.combinations(images, 4):
        assert len(set(written_names(some, suffix).values())) == 4


def test_the_suffix_replaces_the_images_own_where_it_can():
    names = written_names(["a.jpg", "b.jpg", "b.png", "c.jpg", "c.jpg.png"], ".png")
    assert list(names.values()) == [
        *("a.png", "b.jpg.png", "b.png.png", "c.png", "c.jpg.png.png"),
    ]
