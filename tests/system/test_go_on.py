import shlex
import sys

import pytest

from mmssprl.system.go_on import COMMAND, command_of_process, to_go_on


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("train.py a.py", "train.py a.py --resume"),
        ("train.py a.py --overwrite --amp", "train.py a.py --amp --resume"),
        ("train.py a.py --resume", "train.py a.py --resume"),
        ("train.py a.py --resume --amp", "train.py a.py --amp --resume"),
        ("train.py --resume old.pth a.py", "train.py a.py --resume"),
        ("train.py a.py --resume=old.pth", "train.py a.py --resume"),
        ("train.py --cfg-options 'y=a b'", "train.py --cfg-options 'y=a b' --resume"),
    ],
)
def test_the_newest_checkpoint_is_gone_on_with(command, expected):
    assert shlex.join(to_go_on(shlex.split(command))) == expected


def test_the_command_is_the_one_that_was_typed(monkeypatch):
    for name in ("LOCAL_RANK", "WORLD_SIZE", COMMAND):
        monkeypatch.delenv(name, raising=False)
    assert command_of_process() == sys.orig_argv
    monkeypatch.setenv(COMMAND, r"bash tools/dist_train.sh a\ b.py 2 ")
    assert command_of_process() == ["bash", "tools/dist_train.sh", "a b.py", "2"]
