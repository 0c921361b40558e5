import numpy as np
import pytest
import torch
from helpers.datasets.image_folders import save
from helpers.datasets.labelled_folders import write_weights

from mmssprl.cli import main
from mmssprl.features import FeatureBackbone
from mmssprl.models import TimmBackbone
from mmssprl.reporting.pictures.feature_maps import feature_maps, principal_colours


def test_colours_are_the_principal_components_of_all_cells():
    maps = torch.randn(3, 8, 4, 5, generator=torch.Generator().manual_seed(0))
    maps[:, 0] *= 10
    colours = principal_colours(maps)
    assert colours.shape == (3, 4, 5, 3)
    assert 0 < colours.min() < 0.1
    assert 0.9 < colours.max() < 1
    # The first component is the loud channel, up to its sign.
    first = np.log(colours[..., 0] / (1 - colours[..., 0]))  # the logistic curve undone
    assert abs(np.corrcoef(first.flatten(), maps[:, 0].flatten())[0, 1]) > 0.98


def test_an_extreme_cell_leaves_the_others_their_colours():
    maps = torch.randn(3, 8, 4, 5, generator=torch.Generator().manual_seed(0))
    maps[0, :, 0, 0] = 30.0  # takes the first component
    others = principal_colours(maps).reshape(-1, 3)[1:]
    assert (others.std(axis=0)[1:] > 0.2).all()
    assert 0.3 < others.mean() < 0.7


def test_a_size_that_the_network_refuses_is_named():
    model = FeatureBackbone(TimmBackbone("test_maxvit", "featmap").eval())
    with pytest.raises(
        ValueError, match=r"take images of 96 x 96 px, .*\(--image-px\), such as 160"
    ):
        feature_maps(model, [torch.zeros(3, 96, 96)])


def draw(tmp_path, *words):
    """Return the SVG that the command draws of two images."""
    for i in range(2):
        save(tmp_path / "images" / f"{i}.png", i, (40, 40))
    out = tmp_path / "maps.svg"
    assert main(["visualize", "features", str(tmp_path / "images"), str(out), *words]) == 0
    return out.read_text()


def test_the_command_draws_several_backbones(tmp_path):
    text = draw(tmp_path, "--weights", str(write_weights(tmp_path)), "random")
    assert text.count("448 px, 28 x 28 cells") == 2


def test_backbones_of_one_name_get_their_folders(tmp_path):
    files = [str(write_weights(tmp_path / folder)) for folder in ("one", "two")]
    text = draw(tmp_path, "--image-px", "64", "--weights", *files)
    assert text.count("64 px, 4 x 4 cells") == 2
    assert text.count("one/") == text.count("two/") == 1
