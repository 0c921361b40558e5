import numpy as np
import pytest
import torch
from helpers.reporting.tiny_views import write_config
from matplotlib.colors import to_rgb
from mmengine.config import Config
from PIL import Image
from torch import nn

from mmssprl.datasets import UnlabeledImages
from mmssprl.drawing.style import CATEGORIES
from mmssprl.errors import UserFileNotFoundError
from mmssprl.reporting.assignments import Assignments
from mmssprl.reporting.pictures.prototype_map import draw_prototype_map
from mmssprl.reporting.pictures.prototypes import draw_prototype_parts
from mmssprl.weights.backbone import build_model

RED = 4
GREEN = 1
BLUE = 7
COLOURS = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255)}


class Pixels(nn.Module):
    """A backbone whose map is the image itself."""

    def forward(self, images):
        return (images,)


def write_colours(folder):
    """Write five images; the upper left quarter of the two green ones is blue."""
    images = folder / "images"
    images.mkdir()
    for i, name in enumerate(["red", "red", "red", "green", "green"]):
        pixels = np.empty((64, 64, 3), np.uint8)
        pixels[:] = COLOURS[name]
        if name == "green":
            pixels[:32, :32] = COLOURS["blue"]
        Image.fromarray(pixels).save(images / f"{i}.png")
    return images


def colour_model(tmp_path):
    """SS-PRL whose embeddings are colours, as are three of its prototypes in all scales."""
    cfg = Config.fromfile(write_config(tmp_path, "mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0)"))
    spec = cfg.model.to_dict()
    spec["layout"]["num_small"] = 0
    spec["neck"] |= {"in_channels": 3, "out_channels": 3, "hid_channels": 0}
    spec["head"] |= {"in_channels": 3}
    model = build_model(spec)
    model.backbone = Pixels()  # pooled, their mean colour
    for head, prototypes in zip(model.neck.heads, model.head.prototypes, strict=True):
        head.weight.data = torch.eye(3)
        head.bias.data = torch.zeros(3)
        prototypes.weight.data.fill_(-1.0)
        for number, name in ((RED, "red"), (GREEN, "green"), (BLUE, "blue")):
            prototypes.weight.data[number] = torch.tensor(COLOURS[name]) / 255
    model.eval()
    return model


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("colours")
    return Assignments.of(colour_model(folder), UnlabeledImages(str(write_colours(folder))))


def test_crops_choose_the_prototype_of_their_colour(found):
    assert found.indices == [0, 1, 2, 3, 4]
    assert found.counts(0)[[RED, GREEN]].tolist() == [3, 2]
    # The upper left quarter of the two green images is blue.
    assert found.counts(1)[[RED, GREEN, BLUE]].tolist() == [12, 6, 2]
    assert found.most_chosen(1, 3, [3, 4]) == [(GREEN, 0.75), (BLUE, 0.25)]


def test_the_nearest_crops_are_of_different_images(found):
    assert found.nearest(0, GREEN, 2) == [(3, 0), (4, 0)]
    assert found.nearest(1, BLUE, 9)[:2] == [(3, 0), (4, 0)]
    assert len(found.nearest(1, BLUE, 9)) == 5  # an image gives one crop


def test_a_tile_is_cut_at_the_box_of_its_crop(found):
    assert found.boxes[1][3, 0].tolist() == [8, 8, 24, 24]  # of 64 px, 16 in the middle of 32
    tile, _ = found.tiles(1, BLUE, 2, "words")
    assert (tile.picture == np.array(COLOURS["blue"])).all()
    assert tile.words == "words"


def test_a_run_must_have_a_checkpoint_that_fits(tmp_path):
    write_config(tmp_path, "")
    with pytest.raises(UserFileNotFoundError, match=f"{tmp_path} has no checkpoint yet"):
        Assignments.of_run(tmp_path, None)
    state = {"backbone.conv1.weight": torch.ones(1)}
    torch.save({"meta": {"epoch": 2, "iter": 6}, "state_dict": state}, tmp_path / "epoch_2.pth")
    (tmp_path / "last_checkpoint").write_text("/moved/epoch_2.pth")
    with pytest.raises(ValueError, match=r"(?s)epoch_2\.pth.*backbone\.conv1\.weight \(1,\)"):
        Assignments.of_run(tmp_path, None)


def texts(figure):
    parts = [text.get_text() for text in figure.findobj(lambda a: hasattr(a, "get_text"))]
    return "\n".join(parts)


@pytest.fixture(scope="module")
def parts(found):
    weights = found.model.head.correlation[0].weight.data  # (K_0, K_1)
    weights[GREEN] = torch.linspace(0.1, 0.2, weights.shape[1])
    weights[GREEN, 3] = 0.9
    return draw_prototype_parts(found, GREEN)


def test_the_parts_of_a_prototype_are_named(parts):
    words = texts(parts)
    assert "its images, in the colours below" in words
    assert "prototype 1 of the image (40 % of 5 images)" in words
    assert f"{GREEN}: chosen by 75 % of the patches" in words
    assert f"{BLUE}: chosen by 25 % of the patches" in words
    assert "3: weight 0.90 in g₁" in words


def test_the_parts_of_a_prototype_are_outlined_in_their_colours(parts):
    image = parts.axes[0].images[0].get_array()
    often, seldom = (np.array(to_rgb(colour)) * 255 for colour in CATEGORIES[:2])
    num_often = (np.abs(image - often).max(-1) < 9).sum()
    num_seldom = (np.abs(image - seldom).max(-1) < 9).sum()
    assert num_often > num_seldom > 0


def test_a_prototype_is_next_to_its_nearest_one(found):
    words = texts(draw_prototype_map(found))
    assert "choose 2 of them" in words
    red, green = found.model.head.prototypes[0].weight[[RED, GREEN]]
    cosine = torch.cosine_similarity(red, green, dim=0)
    assert f"{GREEN}: cosine {cosine:.2f}" in words or f"{RED}: cosine {cosine:.2f}" in words
