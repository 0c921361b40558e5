import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mmssprl.config.reading import read_config_file
from mmssprl.config.shipped import config_file, shipped
from mmssprl.engine.launch import prepare_test_config, prepare_train_config
from mmssprl.errors import UserError, UserFileNotFoundError
from mmssprl.reporting.pictures import draw_views

BAD = {
    "syntax": ("\nmodel = dict(\n", r"line 2 of it or .*never closed"),
    "division": ("x = 1\ny = [\n    1 / 0]\n", r"line 3: ZeroDivisionError"),
    "import": ("_base_ = []\nimport nowhere\n", r"line 2: ModuleNotFoundError"),
    "base": ('_base_ = "no.py"\n', r"FileNotFoundError: .*/no.py"),
    "bases": ("_base_ = 3\n", ".*'int'"),
    "merge": ('_base_ = "base.py"\nx = dict(a=dict(b=1))\n', ".*'b': 1"),
    "module": ('custom_imports = dict(imports=["nowhere"])\n', ".*nowhere; .*PYTHONPATH"),
    "reserved": ("filename = 3\n", "KeyError: filename"),
}


@pytest.mark.parametrize("case", BAD)
def test_the_file_and_the_line_are_named(tmp_path, monkeypatch, case):
    text, message = BAD[case]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "base.py").write_text("x = dict(a=1)\n")
    (tmp_path / "bad.py").write_text(text)
    with pytest.raises(UserError, match=f"^bad.py: {message}.*") as caught:
        read_config_file("bad.py")
    assert "\n" not in str(caught.value)


def test_a_mistake_in_a_base(tmp_path):
    (tmp_path / "base.py").write_text('_base_ = "no.py"\n')
    (tmp_path / "bad.py").write_text('_base_ = "base.py"\n')
    with pytest.raises(UserFileNotFoundError, match=r"/bad.py: .*/no.py"):
        read_config_file(tmp_path / "bad.py")
    (tmp_path / "base.py").write_text("x = 1\ny = 1 / 0\n")
    with pytest.raises(UserError, match=r"^/.*/base.py: line 2: ZeroDivisionError: "):
        read_config_file(tmp_path / "bad.py")
    (tmp_path / "base.py").write_text("x = 1\ny = (\n")
    with pytest.raises(UserError, match=r"/bad.py: line 2 of .*_base_: .*closed"):
        read_config_file(tmp_path / "bad.py")


def test_a_mistake_in_a_module_that_is_imported(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_parts.py").write_text("x = 1\ny = 1 / 0\n")
    (tmp_path / "bad.py").write_text('custom_imports = dict(imports=["own_parts"])\n')
    with pytest.raises(UserError, match=r"/own_parts.py: line 2: ZeroDivisionError"):
        read_config_file(tmp_path / "bad.py")


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
    with pytest.raises(ValueError, match=f"^{SCENES} must set test_dataloader"):
        prepare_test_config(SCENES, "any.pth")
    Image.fromarray(np.zeros((96, 96, 3), np.uint8)).save("image.png")
    title = draw_views(SCENES, "image.png").get_suptitle()
    assert title.startswith("ssprl_resnet18_scenes: ")
