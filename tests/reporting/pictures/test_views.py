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
from mmssprl.reporting.pictures.views import _in_place, cut_views, mosaic


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "ramp.png"
    Image.fromarray(ramp().permute(1, 2, 0).numpy()).save(path)
    return path


@pytest.fixture
def views(tmp_path):
    return write_config(tmp_path, "")


class TestCutViews:
    def test_every_scale_in_order_and_boxes_show_what_the_crops_hold(self, views):
        slots = cut_views(Config.fromfile(views), ramp())
        assert [(s.slot.role, s.slot.scale, s.cut.shape[:3]) for s in slots] == [
            ("image", 0, (2, 1, 32)),
            ("small", 0, (3, 1, 16)),
            ("patch", 1, (2, 4, 16)),
            ("patch", 2, (2, 9, 20)),
        ]
        for drawn in slots:
            flat = drawn.cut.reshape(-1, *drawn.cut.shape[2:])
            for crop, (left, top, right, bottom) in zip(
                flat, drawn.boxes.reshape(-1, 4), strict=True
            ):
                assert crop[..., 0].mean() == pytest.approx(255 * (left + right) / 320, abs=3)
                assert crop[..., 1].mean() == pytest.approx(255 * (top + bottom) / 240, abs=3)
                assert int(crop[0, -1, 0]) - int(crop[0, 0, 0]) == pytest.approx(
                    255 * (right - left) / 160, rel=0.2, abs=4
                )

    def test_the_seed_decides_and_the_global_generator_is_left(self, views):
        before = torch.random.get_rng_state()
        first, again = (cut_views(Config.fromfile(views), ramp()) for _ in range(2))
        assert torch.equal(torch.random.get_rng_state(), before)
        for a, b in zip(first, again, strict=True):
            assert np.array_equal(a.augmented, b.augmented)


class TestDrawViews:
    def test_a_row_for_each_role_and_scale_with_patches_where_they_lie(self, views, image):
        figure = draw_views(views, image)
        texts = [axes.get_title(loc="left") for axes in figure.axes]
        assert texts.count("V, cut") == texts.count("V', augmented") == 3
        assert texts[::5] == ["Image views", "Small views", "Level 1", "Level 2"]
        slots = cut_views(Config.fromfile(views), ramp())
        for side, level in ((2, slots[2]), (3, slots[3])):
            px = level.cut.shape[2]
            for crops, order in zip(level.cut, _in_place(level), strict=True):
                # A ramp stays a ramp, from left to right and from top to bottom.
                cells = mosaic(crops[order], side)[px // 2 :: px, px // 2 :: px].astype(int)
                assert (np.diff(cells[..., 0], axis=1) > 0).all()
                assert (np.diff(cells[..., 1], axis=0) > 0).all()

    def test_sampled_patches_are_laid_out_by_their_index(self, views, image):
        text = views.read_text().replace("patch_px=20", "patch_px=20, num_sampled=3")
        views.write_text(text)
        tile = draw_views(views, image).axes[-5]
        assert tile.texts[0].get_text() == "3 of 3 x 3 patches of 20 px"
        level = cut_views(Config.fromfile(views), ramp())[-1]
        assert _in_place(level) == [[0, 1, 2]] * 2

    def test_the_command_writes_and_does_not_replace(self, tmp_path, views, image, capsys):
        argv = ["visualize", "views", str(views), str(image), str(tmp_path / "out.png")]
        assert main(argv) == 0
        with Image.open(tmp_path / "out.png") as picture:
            colours = len(picture.convert("RGB").getcolors(2**24))
            assert picture.width > 1000
        assert colours > 1000
        assert main(argv) == 2
        assert "overwrite" in capsys.readouterr().err
        (tmp_path / "out.png").write_text("old")
        assert main([*argv, "--overwrite"]) == 0
        assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("method", "rows", "num_learners"),
    [("swav-small", [0, 0], 0), ("ssprl-small", [0, 0, 1, 2], 2), ("pyramid-only", [0, 1, 2], 0)],
)
def test_the_method_has_its_small_views_and_only_its_own_terms(method, rows, num_learners):
    cfg = BY_KEY[method].config_at("scenes")
    (axes,) = draw_method(cfg, ramp()).axes
    texts = [text.get_text() for text in axes.texts]
    assert [int(text[4]) for text in texts if text.startswith("s = ")] == rows
    assert sum("Eq. 3" in text for text in texts) == (num_learners > 0)
    assert sum(text.startswith("$g_") for text in texts) == num_learners


def test_the_method_has_scales_prototypes_and_learners_of_the_config(views):
    (axes,) = draw_method(Config.fromfile(views), ramp()).axes
    texts = [text.get_text() for text in axes.texts]
    for s, (what, num) in enumerate((("image in 32", 20), ("4 patches", 10), ("9 patches", 10))):
        assert [text for text in texts if text.startswith(f"s = {s}:") and what in text]
        assert [text for text in texts if f"$C_{s}$: {num}" in text]
    assert {"$g_1$", "$g_2$"} <= set(texts)
    assert any("Eq. 3" in text for text in texts)
    # The image, its views, small ones, and two mosaics of each level: 2 x 2 of 16 px, 3 x 3 of 20.
    shapes = [picture.get_array().shape[:2] for picture in axes.images]
    assert shapes == [(120, 160), *[(32, 32)] * 2, *[(33, 33)] * 3, *[(62, 62)] * 2]
    views.write_text(views.read_text().replace("patch_px=20", "patch_px=20, num_sampled=1"))
    (axes,) = draw_method(Config.fromfile(views), ramp()).axes
    assert "s = 2: 1 patch of 20 px" in [text.get_text() for text in axes.texts]
