import base64
import io

import pytest
from matplotlib.figure import Figure
from PIL import Image

from mmssprl.drawing.embedded import data_uri
from mmssprl.drawing.style import titled_figure


@pytest.fixture
def figure():
    figure = titled_figure(3, 2, "a title")
    figure.subplots().plot([1, 2, 3])
    return figure


def test_a_figure_is_drawn_once(figure, monkeypatch):
    drawn = []
    draw = Figure.draw
    monkeypatch.setattr(Figure, "draw", lambda *given: drawn.append(1) or draw(*given))
    data_uri(figure, "svg")
    assert drawn == [1]


def test_equal_figures_have_equal_text(figure):
    assert data_uri(figure, "svg") == data_uri(figure, "svg")


def test_a_figure_has_its_size(figure):
    kind, _, text = data_uri(figure, "jpeg").partition(",")
    assert kind == "data:image/jpeg;base64"
    assert Image.open(io.BytesIO(base64.b64decode(text))).size == (315, 210)  # 105 px an inch
