import numpy as np
import torch
from helpers.datasets.image_folders import save
from helpers.datasets.labelled_folders import write_weights

from mmssprl.cli import main
from mmssprl.reporting.pictures.feature_maps import principal_colours


def test_colours_are_the_principal_components_of_all_cells():
    maps = torch.randn(3, 8, 4, 5, generator=torch.Generator().manual_seed(0))
    maps[:, 0] *= 10
    colours = principal_colours(maps)
    assert colours.shape == (3, 4, 5, 3)
    assert (colours.min(), colours.max()) == (0, 1)
    # The first component is the loud channel, up to its sign.
    first = np.corrcoef(colours[..., 0].flatten(), maps[:, 0].flatten())[0, 1]
    assert abs(first) > 0.98


def test_command_draws_several_backbones(tmp_path):
    weights = write_weights(tmp_path / "run")
    for i in range(2):
        save(tmp_path / "images" / f"{i}.png", i, (40, 40))
    out = tmp_path / "maps.svg"
    arguments = ["visualize", "features", str(tmp_path / "images"), str(out), "--image-px", "64"]
    arguments += ["--weights", str(weights), "random"]
    assert main(arguments) == 0
    assert out.read_text().count("4 x 4 cells") == 2
