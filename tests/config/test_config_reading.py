from pathlib import Path

import pytest

from mmssprl.config.reading import read_config_file
from mmssprl.config.shipped import config_file, shipped
from mmssprl.errors import UserError, UserFileNotFoundError
from mmssprl.pretraining.methods import find_method

BASE, CLOSED = '_base_ = "base.py"\n', r"line 2 of it or of a _base_: .*never closed"
OWN = 'custom_imports = dict(imports=["own_parts"])\n'
DIVISION = "x = 1\ny = 1 / 0\n"
BAD = {
    "syntax": ("\nmodel = dict(\n", {}, f"bad.py: {CLOSED}"),
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
def test_the_file_and_the_line_are_named(tmp_path, monkeypatch, case):
    text, others, message = BAD[case]
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name, content in {**others, "bad": text}.items():
        (tmp_path / f"{name}.py").write_text(content)
    kind = UserFileNotFoundError if "no base" in case else UserError
    with pytest.raises(kind, match=f"^{message}") as caught:
        read_config_file("bad.py")
    assert "\n" not in str(caught.value)


def test_a_dropped_method_and_a_dropped_config_name_what_to_use():
    with pytest.raises(UserError, match="ssprl-shared was dropped: its code is at commit"):
        find_method("ssprl-shared")
    with pytest.raises(UserFileNotFoundError, match="--size"):
        config_file("configs/baselines/simsiam_resnet18_photos.py")


def test_a_shipped_config_is_found_and_a_local_one_wins(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    local = Path("configs/ssprl/ssprl_resnet18_scenes.py")
    assert config_file(local) == shipped(local)
    assert shipped(local).is_absolute()
    local.parent.mkdir(parents=True)
    local.touch()
    assert config_file(local) == local
