import pytest

from mmssprl.pyramid import PyramidLevel, ViewLayout

LEVEL = {"grid": 2, "resize_px": 8, "patch_px": 4}
SAMPLED = [PyramidLevel(2, 314, 112, num_sampled=2), PyramidLevel(3, 383, 96, num_sampled=3)]
ONE_SIZE = [PyramidLevel(2, 224, 96), PyramidLevel(3, 288, 96)]


@pytest.mark.parametrize(
    ("options", "groups", "patches"),
    [
        ({}, [(224, 2), (112, 8), (96, 18)], (1, 4, 9)),
        # Small views and the patches of level 2 are both 96 px, but do not follow each other.
        ({"num_small": 6}, [(224, 2), (96, 6), (112, 8), (96, 18)], (1, 4, 9)),
        ({"levels": ONE_SIZE}, [(224, 2), (96, 26)], (1, 4, 9)),
        ({"num_small": 6, "levels": SAMPLED}, [(224, 2), (96, 6), (112, 4), (96, 6)], (1, 2, 3)),
    ],
    ids=["paper", "released", "one size", "sampled"],
)
def test_consecutive_views_of_one_size_share_a_group(options, groups, patches):
    layout = ViewLayout(**options)
    assert [(group.px, group.num_crops) for group in layout.groups] == groups
    assert layout.num_crops == sum(num for _, num in groups)
    assert layout.num_image_views == 2 + layout.num_small
    assert layout.patches_per_scale == patches
    assert [level.num_cells for level in layout.levels] == [4, 9]


@pytest.mark.fence
def test_cells_by_hand():
    assert [level.cell_px for level in ViewLayout().levels] == [157, 127]


@pytest.mark.fence
def test_slots_by_hand():
    slots = ViewLayout(levels=ONE_SIZE).groups[1].slots
    assert [(s.role, s.scale, s.start) for s in slots] == [("patch", 1, 0), ("patch", 2, 8)]


@pytest.mark.parametrize(
    ("cfg", "message"),
    [
        ([224, 112], "layout must be a dict"),
        ({"levels": [(3, 383, 128)]}, r"levels\[0\] must be a dict"),
        (
            {"levels": [{**LEVEL, "patch_px": 5}]},
            r"\[0\]: resize_px // grid = 4 .*patch_px=5; .* 10",
        ),
        ({"levels": [{**LEVEL, "grid": 1}]}, "grid must be at least 2"),
        ({"levels": [{"grid": 2, "resize_px": 8}]}, r"levels\[0\]: .*patch_px"),
        ({"levels": [{**LEVEL, "area": (0.0, 1.0)}]}, r"levels\[0\]: area"),
        ({"levels": [{**LEVEL, "num_sampled": 0}]}, r"levels\[0\]: num_sampled .* 4 .*0"),
        ({"levels": [{**LEVEL, "num_sampled": 5}]}, r"levels\[0\]: num_sampled .* 4 .*5"),
        ({"image_px": 0}, "image_px must be from 1 to 2048 pixels, but got 0"),
        ({"image_px": 100_000}, "image_px .* 2048 pixels, but got 100000"),
        ({"image_area": (0.5, 0.1)}, "image_area"),
        ({"small_area": (0.5, 1.1)}, "small_area"),
        ({"num_small": -1}, "num_small"),
        ({"small_px": 9.5}, "small_px"),
        ({"sizes": 3}, r"layout: unknown .*'sizes'"),
    ],
)
def test_bad_layouts(cfg, message):
    with pytest.raises((ValueError, TypeError), match=message):
        ViewLayout.build(cfg)
