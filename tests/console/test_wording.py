import shlex
from pathlib import Path

import pytest

from mmssprl.console.wording import on_one_line, printable, wrapped
from mmssprl.system.commands import command_line


def test_a_command_is_one_whatever_its_paths_contain():
    words = ["probe", Path("my photos/it's.pth"), "Größe $1"]
    assert shlex.split(command_line(*words)) == ["python", "-m", "mmssprl", *map(str, words)]


def test_a_text_is_wrapped_at_its_spaces_alone():
    path = "photos-of-the-sea/" * 8
    assert wrapped(f"{'word ' * 22}--max-bad-share {path} end") == (
        f"{'word ' * 21}word\n  --max-bad-share\n  {path}\n  end"
    )
    assert wrapped("short") == "short"


ACTING = [0, 7, 8, 13, 27, 31, 127, 0x85, 0x9B, 0x61C, 0x200E, 0x200F, 0x2028, 0x2029]
ACTING += [*range(0x202A, 0x202F), *range(0x2066, 0x206A)]


@pytest.mark.parametrize("show", [on_one_line, printable])
def test_what_a_terminal_or_a_browser_would_act_on_is_shown(show):
    for number in ACTING:
        shown = repr(chr(number))[1:-1]
        assert shown.startswith("\\")
        assert show(f"a{chr(number)}b") == f"a{shown}b"


@pytest.mark.parametrize(
    "name", ["Größe 1.jpg", "写真.jpg", "שלום.jpg", "a\u00a0b", "\udcff.jpg", "é.jpg"], ids=ascii
)
def test_names_of_any_language_stay_as_they_are(name):
    assert on_one_line(name) == printable(name) == name


def test_line_breaks_are_kept_in_a_text_alone():
    assert on_one_line("a\nb\\n\t") == r"a\nb\\n\t"
    assert printable("a\nb\\n\t") == "a\nb\\n\t"
