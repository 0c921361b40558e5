import numpy as np
import pytest
import torch
from helpers.reporting.tiny_views import ramp, write_config
from mmengine.config import Config
from PIL import Image

from mmssprl.cli import main
from mmssprl.pretraining.methods import BY_KEY
from mmssprl.reporting.pictures import draw_views
from mmssprl.reporting.pictures.method import draw_method
from mmssprl.reporting.pictures.views import cut_views, mosaic


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "ramp.png"
    Image.fromarray(ramp().permute(1, 2, 0).numpy()).save(path)
    return path


@pytest.fixture
def views(tmp_path):
    return write_config(tmp_path, "")


def test_views_are_drawn_alike_each_time(views):
    before = torch.random.get_rng_state()
    slots, again = (cut_views(Config.fromfile(views), ramp()) for _ in range(2))
    assert torch.equal(torch.random.get_rng_state(), before)
    for drawn, same in zip(slots, again, strict=True):
        assert np.array_equal(drawn.augmented, same.augmented)


def test_every_scale_is_drawn_in_order(views):
    slots = cut_views(Config.fromfile(views), ramp())
    assert [(s.slot.role, s.slot.scale, s.cut.shape[:3]) for s in slots] == [
        ("image", 0, (2, 1, 32)),
        ("small", 0, (3, 1, 16)),
        ("patch", 1, (2, 4, 16)),
        ("patch", 2, (2, 9, 20)),
    ]


def test_boxes_show_what_the_crops_hold(views):
    for drawn in cut_views(Config.fromfile(views), ramp()):
        left, top, right, bottom = np.moveaxis(drawn.boxes, -1, 0)  # (V, P) each
        red, green = drawn.cut.mean(axis=(2, 3))[..., :2].transpose(2, 0, 1)
        np.testing.assert_allclose(red, 255 * (left + right) / 320, atol=3)
        np.testing.assert_allclose(green, 255 * (top + bottom) / 240, atol=3)
        width = np.diff(drawn.cut[:, :, 0, [0, -1], 0].astype(int))[..., 0]
        np.testing.assert_allclose(width, 255 * (right - left) / 160, rtol=0.2, atol=4)


class TestDrawViews:
    def test_each_scale_has_a_row(self, views, image):
        figure = draw_views(views, image)
        texts = [axes.get_title(loc="left") for axes in figure.axes]
        assert texts.count("V, cut") == texts.count("V', augmented") == 3
        assert texts[::5] == ["Image views", "Small views", "Level 1", "Level 2"]

    def test_patches_are_where_they_are_in_the_image(self, views):
        for side, level in enumerate(cut_views(Config.fromfile(views), ramp())[2:], start=2):
            px = level.cut.shape[2]
            for crops in level.cut:
                # A ramp stays a ramp, from left to right and from top to bottom.
                cells = mosaic(crops, side)[px // 2 :: px, px // 2 :: px].astype(int)
                assert (np.diff(cells[..., 0], axis=1) > 0).all()
                assert (np.diff(cells[..., 1], axis=0) > 0).all()

    def test_sampled_patches_are_laid_out_by_their_index(self, views, image):
        text = views.read_text().replace("patch_px=20", "patch_px=20, num_sampled=3")
        views.write_text(text)
        tile = draw_views(views, image).axes[-5]
        assert tile.texts[0].get_text() == "3 of 3 x 3 patches, 20 px"

    def test_the_command_does_not_replace_its_picture(self, tmp_path, views, image):
        out = tmp_path / "out.png"
        argv = ["visualize", "views", str(views), str(image), str(out)]
        assert [main(words) for words in (argv, argv)] == [0, 2]
        assert len(Image.open(out).convert("RGB").getcolors(2**24)) > 1000


@pytest.mark.parametrize(("method", "rows"), [("swav-small", [0, 0]), ("pyramid-only", [0, 1, 2])])
def test_a_method_without_levels_or_terms_is_drawn_without_them(method, rows):
    (axes,) = draw_method(BY_KEY[method].config_at("scenes"), ramp()).axes
    texts = [text.get_text() for text in axes.texts]
    assert [int(text[4]) for text in texts if text.startswith("s = ")] == rows
    assert not any("Eq. 3" in text or text.startswith("$g_") for text in texts)


def test_the_method_has_the_numbers_of_the_config(views):
    (axes,) = draw_method(Config.fromfile(views), ramp()).axes
    texts = [text.get_text() for text in axes.texts]
    for s, (what, num) in enumerate((("image at 32", 20), ("4 patches", 10), ("9 patches", 10))):
        assert [text for text in texts if text.startswith(f"s = {s}:") and what in text]
        assert [text for text in texts if f"$C_{s}$: {num}" in text]
    assert {"$g_1$", "$g_2$"} <= set(texts)
    assert any("Eq. 3" in text for text in texts)


def test_the_method_has_the_views_of_the_config(views):
    (axes,) = draw_method(Config.fromfile(views), ramp()).axes
    # The image, its views, small ones, and two mosaics of each level: 2 x 2 of 16 px, 3 x 3 of 20.
    shapes = [picture.get_array().shape[:2] for picture in axes.images]
    assert shapes == [(120, 160), *[(32, 32)] * 2, *[(33, 33)] * 3, *[(62, 62)] * 2]


def test_one_sampled_patch_is_said_in_the_singular(views):
    views.write_text(views.read_text().replace("patch_px=20", "patch_px=20, num_sampled=1"))
    (axes,) = draw_method(Config.fromfile(views), ramp()).axes
    assert "s = 2: 1 patch of 20 px" in [text.get_text() for text in axes.texts]
