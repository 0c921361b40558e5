import shlex
from pathlib import Path

import pytest

from mmssprl.wording import command_line, counted, wrapped


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 epochs"), (1, "1 epoch"), (2, "2 epochs"), (1200, "1,200 epochs")]
)
def test_counted(number, text):
    assert counted(number, "epoch") == text


def test_a_command_is_one_whatever_its_paths_contain():
    words = ["probe", Path("my photos/it's.pth"), "Größe $1"]
    assert shlex.split(command_line(*words)) == ["python", "-m", "mmssprl", *map(str, words)]


def test_a_text_is_wrapped_at_its_spaces_alone():
    path = "photos-of-the-sea/" * 8
    assert wrapped(f"{'word ' * 22}--max-bad-share {path} end") == (
        f"{'word ' * 21}word\n  --max-bad-share\n  {path}\n  end"
    )
    assert wrapped("short") == "short"
