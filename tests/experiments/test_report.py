import pytest
from matplotlib.collections import PathCollection

from mmssprl.experiments.report import Panel, draw_panels

ROWS = ["one", "two", "three"]
DOTS = {"one": [(40.0, ""), (44.0, "collapsed")], "two": [(50.0, "")]}


def draw(*panels, highlighted=""):
    figure = draw_panels(panels, ROWS, highlighted)
    return [axes for axes in figure.axes if axes.get_visible()]


def test_a_dot_per_seed_and_the_mean_below_it_with_lines_and_a_row_of_another_colour():
    lines = {"random weights": 10.0, "chance": 5.0}
    [axes] = draw(Panel("title", DOTS, lines), highlighted="two")
    assert axes.get_xlabel() == "mAP, %"
    assert [label.get_text() for label in axes.get_yticklabels()] == ROWS
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the first row is at the top
    points = [each for each in axes.collections if isinstance(each, PathCollection)]
    dots = [(*map(float, p.get_offsets()[0]), len(p.get_facecolor()) > 0) for p in points]
    assert dots == [(40, -0.16, True), (44, -0.16, False), (50, 0.84, True)]
    [mean] = [line for line in axes.lines if line.get_xdata()[0] == 42]
    assert mean.get_ydata()[0] == pytest.approx(0.16)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["collapsed", *lines]
    drawn = {line.get_label(): line.get_xdata()[0] for line in axes.lines}
    assert lines.items() <= drawn.items()
    assert axes.get_xlim()[0] < 5
    first, _, last = (tuple(each.get_edgecolor()[0]) for each in points)
    assert first != last


def test_panels_have_one_axis_and_may_be_in_two_rows():
    low, high = Panel("a", {"one": [(10.0, "")]}), Panel("b", {"one": [(90.0, "")]})
    assert len({axes.get_xlim() for axes in draw(low, high)}) == 1
    assert len(draw(*[low] * 5)) == 5
