import pytest

from mmssprl.experiments.report import Panel, draw_panels

ROWS = ["one", "two", "three"]
DOTS = {"one": [(40.0, ""), (44.0, "collapsed")], "two": [(50.0, "")]}


def draw(*panels, **kwargs):
    figure = draw_panels(panels, ROWS, "title", **kwargs)
    return [axes for axes in figure.axes if axes.get_visible()]


def test_a_dot_per_seed_and_the_mean_below_it_with_lines_and_a_row_of_another_colour():
    lines = {"random weights": 10.0, "chance": 5.0}
    [axes] = draw(Panel("title", "mAP", DOTS, lines), highlighted="two")
    assert axes.get_xlabel() == "mAP, %"
    assert [label.get_text() for label in axes.get_yticklabels()] == ROWS
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the first row is at the top
    points = [line for line in axes.lines if line.get_marker() == "o"]
    dots = [(p.get_xdata()[0], p.get_ydata()[0], p.get_fillstyle()) for p in points]
    assert dots == [(40, -0.16, "full"), (44, -0.16, "none"), (50, 0.84, "full")]
    [mean] = [line for line in axes.lines if line.get_xdata()[0] == 42]
    assert mean.get_ydata()[0] == pytest.approx(0.16)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["collapsed", *lines]
    drawn = {line.get_label(): line.get_xdata()[0] for line in axes.lines}
    assert lines.items() <= drawn.items()
    assert axes.get_xlim()[0] < 5
    first, _, last = (each.get_color() for each in points)
    assert first != last


def test_panels_of_one_metric_have_one_axis_and_others_their_own():
    low, high = Panel("a", "mAP", {"one": [(10.0, "")]}), Panel("b", "mAP", {"one": [(90.0, "")]})
    assert len({axes.get_xlim() for axes in draw(low, high)}) == 1
    other = Panel("b", "AP", {"one": [(90.0, "")]})
    assert len({axes.get_xlim() for axes in draw(low, other)}) == 2
    assert len(draw(*[low] * 5)) == 5  # in two rows
