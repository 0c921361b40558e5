import matplotlib
import pytest
from PIL import Image

from mmssprl.drawing.embedded import data_uri
from mmssprl.drawing.style import own_style, titled_figure
from mmssprl.system.outputs import write_figure


def draw():
    with own_style():
        figure = titled_figure(3, 2, "a title")
        figure.subplots().plot([1, 2, 3])
    return figure


@pytest.fixture
def rc_of_user():
    """What a user's matplotlibrc may set: TeX needs a program, the others change the picture."""
    values = {"text.usetex": True, "font.size": 30, "lines.linewidth": 9, "savefig.dpi": 10}
    return lambda: matplotlib.rc_context(values)


def test_a_page_has_our_style(rc_of_user):
    expected = data_uri(draw(), "svg")
    with rc_of_user():
        assert data_uri(draw(), "svg") == expected


def test_a_file_has_our_size(rc_of_user, tmp_path):
    with rc_of_user():
        write_figure(tmp_path / "a.png", draw())
    assert Image.open(tmp_path / "a.png").size == (450, 300)


def test_the_style_of_the_user_comes_back(rc_of_user):
    with rc_of_user():
        draw()
        assert matplotlib.rcParams["font.size"] == 30
