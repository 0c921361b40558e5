"""Which prototypes, images and patches are drawn, on images of one colour each."""

import numpy as np
import pytest
import torch
from helpers.datasets.image_folders import save
from helpers.visualization.tiny_views import write_config
from mmengine.config import Config
from PIL import Image

from mmssprl.cli import main
from mmssprl.datasets import UnlabeledImages
from mmssprl.models import SSPRL
from mmssprl.visualization.prototypes import find_prototypes
from mmssprl.weights.backbone import build_model

COLOURS = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255)}


class Colours(torch.nn.Module):
    """A backbone whose pooled features are the mean colour."""

    def forward(self, images):
        return (images,)


@pytest.fixture
def folder(tmp_path):
    """Five images; the upper left quarter of the two green ones is blue."""
    images = tmp_path / "images"
    images.mkdir()
    for i, name in enumerate(["red", "red", "red", "green", "green"]):
        pixels = np.empty((64, 64, 3), np.uint8)
        pixels[:] = COLOURS[name]
        if name == "green":
            pixels[:32, :32] = COLOURS["blue"]
        Image.fromarray(pixels).save(images / f"{i}.png")
    return images


def colour_model(tmp_path):
    """SS-PRL whose embeddings are colours; prototype 4 is red, 1 green, 7 blue, in all scales."""
    cfg = Config.fromfile(write_config(tmp_path, "mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0)"))
    spec = cfg.model.to_dict()
    spec["layout"]["num_small"] = 0
    spec["neck"] |= {"in_channels": 3, "out_channels": 3, "hid_channels": 0}
    spec["head"] |= {"in_channels": 3}
    model = build_model(spec)
    model.backbone = Colours()
    for head, prototypes in zip(model.neck.heads, model.head.prototypes, strict=True):
        head.weight.data, head.bias.data = torch.eye(3), torch.zeros(3)
        prototypes.weight.data.fill_(-1.0)
        for number, name in ((4, "red"), (1, "green"), (7, "blue")):
            prototypes.weight.data[number] = torch.tensor(COLOURS[name]) / 255
    model.eval()
    return model


def test_rows_are_the_prototypes_that_most_images_choose(folder, tmp_path):
    assert isinstance(model := colour_model(tmp_path), SSPRL)
    red, green = find_prototypes(model, UnlabeledImages(str(folder)), progress=False)
    assert (red.number, red.share, len(red.images)) == (4, 0.6, 3)
    assert (green.number, green.share, len(green.images)) == (1, 0.4, 2)
    assert (red.images == np.array(COLOURS["red"])).all()
    # A quarter of the patches of level 1 is blue, 1 + 2 of 9 of level 2 mostly so.
    level, _ = green.patches
    assert [(number, share) for number, share, _ in level] == [(1, 0.75), (7, 0.25)]
    for (_, _, patch), name in zip(level, ("green", "blue"), strict=True):
        assert patch.shape == (16, 16, 3)
        assert (patch == np.array(COLOURS[name])).all()
    assert red.patches[0][0][:2] == (4, 1.0)


def test_unreadable_images_are_left_out_and_none_is_refused(folder, tmp_path):
    for i in (0, 1, 2):
        path = folder / f"{i}.png"
        path.write_bytes(path.read_bytes()[:50])
    model = colour_model(tmp_path)
    [green] = find_prototypes(model, UnlabeledImages(str(folder)), progress=False)
    assert (green.number, green.share) == (1, 1.0)
    for i in (3, 4):
        (folder / f"{i}.png").write_bytes(b"")
    with pytest.raises(ValueError, match="none of 5"):
        find_prototypes(model, UnlabeledImages(str(folder)), progress=False)


def test_the_command_takes_the_newest_checkpoint_of_a_run(tmp_path, capsys):
    run, images = tmp_path / "run", tmp_path / "images"
    run.mkdir()
    config = write_config(run, "")
    for i in range(3):
        save(images / f"{i}.png", i, (40, 40))
    arguments = ["visualize", "prototypes", str(run), str(tmp_path / "out.png")]
    arguments += ["--images", str(images)]
    assert main(arguments) == 2
    assert f"{run} holds none" in capsys.readouterr().err
    state = build_model(Config.fromfile(config).model.to_dict()).state_dict()
    meta = {"epoch": 2, "iter": 6}
    torch.save({"meta": meta, "state_dict": state}, run / "epoch_2.pth")
    (run / "last_checkpoint").write_text("/moved/epoch_2.pth")
    assert main(arguments) == 0
    assert (tmp_path / "out.png").stat().st_size > 5000
    state = {"backbone.conv1.weight": torch.ones(1)}
    torch.save({"meta": meta, "state_dict": state}, run / "epoch_2.pth")
    assert main([*arguments, "--force"]) == 2
    told = capsys.readouterr().err
    assert "backbone.conv1.weight (1,)" in told
    assert "epoch_2.pth" in told
