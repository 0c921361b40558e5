import sys
from pathlib import Path

import pytest

from mmssprl.config.reading import read_config_file
from mmssprl.config.shipped import config_file, shipped
from mmssprl.errors import UserError, UserFileNotFoundError
from mmssprl.pretraining.methods import find_method

BASE = '_base_ = "base.py"\n'
CLOSED = r"line 2 of it or of a _base_: .*never closed"
OWN = 'custom_imports = dict(imports=["own_parts"])\n'
DIVISION = "x = 1\ny = 1 / 0\n"
BAD = {
    "syntax": ("\nmodel = dict(\n", {}, f"bad.py: {CLOSED}"),
    "mark": ("\ufeffx = 1\n", {}, r"bad.py: .*U\+FEFF; save the file as UTF-8 without .*BOM"),
    "division": (DIVISION, {}, "bad.py: line 2: ZeroDivisionError"),
    "import": ("_base_ = []\nimport nowhere\n", {}, "bad.py: line 2: ModuleNotFoundError"),
    "bases": ("_base_ = 3\n", {}, "bad.py: .*'int'"),
    "merge": (f"{BASE}x = dict(a=dict(b=1))\n", {"base": "x = dict(a=1)\n"}, "bad.py: .*'b': 1"),
    "module": (OWN, {}, "bad.py: .*own_parts; .*PYTHONPATH"),
    "reserved": ("filename = 3\n", {}, "bad.py: KeyError: filename"),
    "no base": (BASE, {}, "bad.py: FileNotFoundError: .*/base.py"),
    "no base of a base": (BASE, {"base": '_base_ = "no.py"\n'}, "bad.py: .*/no.py"),
    "division in a base": (BASE, {"base": DIVISION}, "/.*/base.py: line 2: ZeroDivisionError: "),
    "syntax of a base": (BASE, {"base": "x = 1\ny = (\n"}, f"bad.py: {CLOSED}"),
    "division in a module": (OWN, {"own_parts": DIVISION}, "/.*/own_parts.py: line 2: ZeroDiv"),
}
"""A config, the files next to it, and the message."""


@pytest.mark.parametrize("case", BAD)
def test_the_place_of_a_mistake_is_named(tmp_path, monkeypatch, case):
    text, others, message = BAD[case]
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name, content in {**others, "bad": text}.items():
        (tmp_path / f"{name}.py").write_text(content)
    kind = UserFileNotFoundError if "no base" in case else UserError
    with pytest.raises(kind, match=f"^{message}") as caught:
        read_config_file("bad.py")
    assert "\n" not in str(caught.value)


def test_own_parts_are_found_in_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "parts_next_to_a_config.py").write_text("")
    config = tmp_path / "own.py"
    config.write_text(OWN.replace("own_parts", "parts_next_to_a_config"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each not in ("", str(tmp_path))])
    read_config_file(config)
    assert sys.modules.pop("parts_next_to_a_config").__file__.startswith(str(tmp_path))


def test_a_dropped_method_names_where_its_code_is():
    with pytest.raises(UserError, match="ssprl-shared was dropped: its code is at commit"):
        find_method("ssprl-shared")


def test_a_dropped_config_names_what_to_use():
    with pytest.raises(UserFileNotFoundError, match="--size"):
        config_file("configs/baselines/simsiam_resnet18_photos.py")


SHIPPED = Path("configs/ssprl/ssprl_resnet18_scenes.py")


def test_a_shipped_config_is_found_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert config_file(SHIPPED) == shipped(SHIPPED)
    assert shipped(SHIPPED).is_absolute()


def test_a_local_config_wins_over_a_shipped_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    SHIPPED.parent.mkdir(parents=True)
    SHIPPED.touch()
    assert config_file(SHIPPED) == SHIPPED
