"""Which prototypes, images and patches are drawn, on images of one colour each."""

import numpy as np
import pytest
import torch
from helpers.datasets.image_folders import save
from helpers.visualization.colours import COLOURS, colour_model, write_colours
from helpers.visualization.tiny_views import write_config
from mmengine.config import Config

from mmssprl.cli import main
from mmssprl.datasets import UnlabeledImages
from mmssprl.models import SSPRL
from mmssprl.visualization.assignments import Assignments
from mmssprl.visualization.prototypes import find_prototypes
from mmssprl.weights.backbone import build_model


@pytest.fixture
def folder(tmp_path):
    return write_colours(tmp_path)


def find(model, folder):
    return find_prototypes(Assignments.of(model, UnlabeledImages(str(folder)), progress=False))


def test_rows_are_the_prototypes_that_most_images_choose(folder, tmp_path):
    assert isinstance(model := colour_model(tmp_path), SSPRL)
    red, green = find(model, folder)
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
    [green] = find(model, folder)
    assert (green.number, green.share) == (1, 1.0)
    for i in (3, 4):
        (folder / f"{i}.png").write_bytes(b"")
    with pytest.raises(ValueError, match="none of 5"):
        find(model, folder)


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
