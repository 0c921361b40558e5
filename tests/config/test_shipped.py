import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mmssprl.config.shipped import config_file, shipped
from mmssprl.engine.launch import prepare_test_config, prepare_train_config
from mmssprl.visualization import draw_views

SCENES = "configs/ssprl/ssprl_resnet18_scenes.py"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """An empty folder that is no checkout."""
    monkeypatch.chdir(tmp_path)


def test_a_shipped_config_is_found_and_a_local_one_wins():
    found = config_file(SCENES)
    assert found == shipped(SCENES)
    assert found.is_absolute()
    local = Path(SCENES)
    local.parent.mkdir(parents=True)
    local.touch()
    assert config_file(SCENES) == local


@pytest.mark.parametrize(
    ("name", "told"),
    [
        *((name, "such as configs/.*, but there is no {}; ") for name in ("gone.py", "x/gone.py")),
        ("configs/ssprl/gone.py", "such as configs/.*, but there is no {}; "),
        ("configs/ssprl", "such as configs/.*{} is a folder; "),
        (".", "such as configs/.*{} is a folder; "),
    ],
)
def test_what_is_no_config_is_named_with_the_remedy(name, told):
    kind = ValueError if "folder" in told else FileNotFoundError
    with pytest.raises(kind, match=told.format(re.escape(name))):
        config_file(name)


def test_every_reader_of_a_config_finds_the_shipped_one():
    assert Path(prepare_train_config(SCENES).filename) == shipped(SCENES)
    with pytest.raises(ValueError, match=f"^{SCENES}: .*test_dataloader"):
        prepare_test_config(SCENES, "any.pth")
    Image.fromarray(np.zeros((96, 96, 3), np.uint8)).save("image.png")
    title = draw_views(SCENES, "image.png").get_suptitle()
    assert title.startswith("ssprl_resnet18_scenes: ")
