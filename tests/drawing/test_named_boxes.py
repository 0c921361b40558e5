from itertools import combinations

import numpy as np

from mmssprl.drawing.named_boxes import (
    Named,
    beside,
    captioned,
    class_colour,
    draw_named,
    missing_characters,
    place_names,
)

BOUNDS = (100, 80)
SIZE = (30, 10)


def grey(height=200, width=300):
    return np.full((height, width, 3), 90, np.uint8)


def test_a_name_is_above_its_box():
    assert place_names([(20, 30, 60, 70)], [SIZE], BOUNDS) == [(20, 20, 50, 30)]


def test_a_name_is_inside_a_box_at_the_upper_edge():
    assert place_names([(20, 0, 60, 70)], [SIZE], BOUNDS) == [(20, 0, 50, 10)]


def test_a_name_stays_inside_the_picture():
    assert place_names([(90, 30, 100, 70)], [SIZE], BOUNDS) == [(70, 20, 100, 30)]


def test_the_first_name_keeps_its_place():
    first, second = place_names([(20, 30, 60, 70), (25, 30, 65, 70)], [SIZE, SIZE], BOUNDS)
    assert first == (20, 20, 50, 30)
    assert second != (25, 20, 55, 30)
    assert second is not None


def test_names_of_boxes_in_one_place_are_below_each_other():
    box = (0, 0, 30, 100)  # fills the picture: only places inside it are left
    places = place_names([box] * 4, [SIZE] * 4, (30, 100))
    assert [top for _, top, _, _ in places] == [0, 90, 10, 20]


def test_names_of_a_crowd_touch_no_other_name():
    boxes = [(x, y, x + 14, y + 14) for x in range(0, 300, 20) for y in range(0, 200, 20)]
    places = place_names(boxes, [(40, 10)] * len(boxes), (314, 214))
    found = [place for place in places if place is not None]
    assert 5 < len(found) < len(boxes)
    for first, second in combinations(found, 2):
        apart_x = first[2] <= second[0] or second[2] <= first[0]
        apart_y = first[3] <= second[1] or second[3] <= first[1]
        assert apart_x or apart_y, (first, second)


def test_a_name_does_not_hide_another_box():
    # Above the box, where the name would be, is a box as large as the name.
    other = (20, 20, 50, 30)
    (place, _) = place_names([(20, 30, 60, 70), other], [SIZE, SIZE], BOUNDS)
    assert place == (20, 30, 50, 40)  # inside its own box


def test_a_name_without_a_place_is_left_out():
    assert place_names([(0, 0, 5, 5)], [(101, 10)], BOUNDS) == [None]


def test_classes_without_a_name_are_in_the_legend():
    names = [Named((10.0, 10.0, 14.0, 14.0), "a" * 80, "", class_colour(0))]
    drawn = draw_named(grey(), [names])
    assert drawn.shape[0] > 200
    assert (drawn[200:] == class_colour(0)).all(2).any()


def test_no_legend_where_all_names_have_a_place():
    drawn = draw_named(grey(), [[Named((50.0, 50.0, 150.0, 150.0), "disc", "", class_colour(0))]])
    assert drawn.shape == (200, 300, 3)
    assert (drawn[50:150, 50] == class_colour(0)).all()
    assert (drawn[32:49, 51:60] == class_colour(0)).all(2).any()  # the ground of the name


def test_masks_tint_their_pixels_only():
    mask = np.zeros((200, 300), bool)
    mask[60:140, 60:140] = True
    drawn = draw_named(grey(), [[Named((50.0, 50.0, 150.0, 150.0), "disc", mask=mask)]])
    assert (drawn[60:140, 60:140] < 90).all()
    assert (drawn[142:148, 60:140] == 90).all()


def test_groups_are_side_by_side():
    box = Named((50.0, 50.0, 150.0, 150.0), "disc", "", class_colour(0))
    drawn = draw_named(grey(), [[], [box]])
    assert drawn.shape == (200, 608, 3)
    assert (drawn[:, :300] == 90).all()
    assert (drawn[:, 300:308] == 255).all()
    assert np.array_equal(drawn[:, 308:], draw_named(grey(), [[box]]))
    assert np.array_equal(beside([grey()]), grey())


def test_colours_of_classes_are_bright_and_differ():
    colours = [class_colour(index) for index in range(80)]
    assert len({*colours}) == 80
    assert all(max(colour) == 255 for colour in colours)


def test_a_caption_is_above_the_picture():
    one = captioned(grey(), [("labels: disc", "#222222")])
    two = captioned(grey(), [("labels: disc", "#222222"), ("found: square", "#b3261e")])
    assert np.array_equal(one[-200:], grey())
    assert len(two) - 200 == 2 * (len(one) - 200)


def test_long_captions_wrap():
    words = ", ".join(["square"] * 20)
    drawn = captioned(grey(), [(words, "#222222")])[:-200]
    assert (drawn[:, -4:] == 255).all()  # nothing is cut at the right
    assert len(drawn) > 3 * (len(captioned(grey(), [("a", "#222222")])) - 200)


def test_characters_that_pictures_cannot_show():
    assert missing_characters(["\u00e9t\u00e9 \u03b1", "\u0436 \u2264 \t"]) == []
    assert missing_characters(["a\u7c90", "\u540d\u7c90"]) == ["\u540d", "\u7c90"]
