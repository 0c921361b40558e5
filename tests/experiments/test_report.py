import pytest
from matplotlib.collections import PathCollection

from mmssprl.experiments.report import Panel, csv_text, draw_panels

ROWS = ["one", "two", "three"]


LINES = {"random weights": 10.0, "chance": 5.0}


@pytest.fixture(scope="module")
def axes():
    """A panel with two dots of the first row, one of the second, which is ours, and two lines."""
    dots = {"one": [40.0, 44.0], "two": [50.0]}
    [axes] = draw_panels([Panel("title", dots, LINES)], ROWS, "two").axes
    return axes


def dots_of(axes):
    return [each for each in axes.collections if isinstance(each, PathCollection)]


def test_a_csv_has_the_columns_of_all_rows():
    rows = [{"seed": 0, "box AP": 1.5}, {"seed": 1, "box AP": 2.5, "mask AP": 3}, {"seed": 2}]
    assert csv_text(rows) == "seed,box AP,mask AP\n0,1.5,\n1,2.5,3\n2,,\n"


def test_each_row_has_a_label(axes):
    assert [label.get_text() for label in axes.get_yticklabels()] == ROWS


def test_each_seed_is_a_dot(axes):
    first, last = dots_of(axes)
    assert first.get_offsets().tolist() == [[40, -0.16], [44, -0.16]]
    assert last.get_offsets().tolist() == [[50, 0.84]]


def test_the_mean_is_below_its_dots(axes):
    [mean] = [line for line in axes.lines if line.get_xdata()[0] == 42]
    assert mean.get_ydata()[0] == pytest.approx(0.16)


def test_our_row_has_another_colour(axes):
    assert axes.figure.get_suptitle().endswith("; orange: the reference")
    first, last = dots_of(axes)
    assert tuple(first.get_facecolor()[0]) != tuple(last.get_facecolor()[0])


def test_lines_are_named_by_the_legend(axes):
    legend = axes.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == [*LINES]
    styles = [line.get_linestyle() for line in legend.get_lines()]
    assert styles == ["--", ":"]  # of chance in every picture, however many lines there are
    assert axes.get_xlim()[0] < 5
