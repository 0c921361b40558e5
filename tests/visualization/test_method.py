"""The picture of the method has what the config says."""

import numpy as np
import pytest
from helpers.visualization.tiny_views import write_config
from PIL import Image

from mmssprl.errors import UserValueError
from mmssprl.visualization.method import draw_method


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "gray.png"
    Image.fromarray(np.full((90, 120, 3), 99, np.uint8)).save(path)
    return path


def test_scales_prototypes_and_learners_are_those_of_the_config(tmp_path, image):
    (axes,) = draw_method(write_config(tmp_path, ""), image).axes
    texts = [text.get_text() for text in axes.texts]
    for s, (what, num) in enumerate((("image in 32", 20), ("4 patches", 10), ("9 patches", 10))):
        assert [text for text in texts if text.startswith(f"s = {s}:") and what in text]
        assert [text for text in texts if f"$C_{s}$: {num}" in text]
    assert {"$g_1$", "$g_2$"} <= set(texts)
    # The image, and two mosaics of each scale: 2 x 2 of 16 px and 3 x 3 of 20 px, a line apart.
    shapes = [picture.get_array().shape[:2] for picture in axes.images]
    assert shapes == [(90, 120), *[(32, 32)] * 2, *[(33, 33)] * 2, *[(62, 62)] * 2]


def test_another_method_is_refused(image):
    with pytest.raises(UserValueError, match="SinkhornHead.*mocov2"):
        draw_method("configs/baselines/mocov2_resnet18_scenes.py", image)
