import shlex
from pathlib import Path

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


def test_what_a_terminal_or_a_browser_would_act_on_is_shown_and_names_stay_as_they_are():
    acting = [0, 7, 8, 13, 27, 31, 127, 0x85, 0x9B, 0x61C, 0x200E, 0x200F, 0x2028, 0x2029]
    for number in [*acting, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]:
        shown = repr(chr(number))[1:-1]
        assert shown.startswith("\\")
        for show in (on_one_line, printable):
            assert show(f"a{chr(number)}b") == f"a{shown}b"
    for name in ("Größe 1.jpg", "写真.jpg", "שלום.jpg", "a\u00a0b", "\udcff.jpg", "é.jpg"):
        assert on_one_line(name) == printable(name) == name
    assert on_one_line("a\nb\\n\t") == r"a\nb\\n\t"
    assert printable("a\nb\\n\t") == "a\nb\\n\t"
