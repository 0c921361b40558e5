import pytest
from matplotlib.collections import PathCollection

from mmssprl.experiments.report import Panel, draw_panels

ROWS = ["one", "two", "three"]


def test_a_dot_per_seed_and_the_mean_below_it_with_lines_and_a_row_of_another_colour():
    lines = {"random weights": 10.0, "chance": 5.0}
    dots = {"one": [40.0, 44.0], "two": [50.0]}
    [axes] = draw_panels([Panel("title", dots, lines)], ROWS, "two").axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ROWS
    first, last = (each for each in axes.collections if isinstance(each, PathCollection))
    assert first.get_offsets().tolist() == [[40, -0.16], [44, -0.16]]
    assert last.get_offsets().tolist() == [[50, 0.84]]
    assert tuple(first.get_facecolor()[0]) != tuple(last.get_facecolor()[0])
    [mean] = [line for line in axes.lines if line.get_xdata()[0] == 42]
    assert mean.get_ydata()[0] == pytest.approx(0.16)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [*lines]
    assert axes.get_xlim()[0] < 5
    styles = [line.get_linestyle() for line in axes.get_legend().get_lines()]
    assert styles == ["--", ":"]  # of chance in every picture, however many lines there are
