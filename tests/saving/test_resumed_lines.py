"""What the console says of a resumed run."""

import re
from unittest.mock import Mock

from helpers.saving.toy_checkpoint import resume_by, truncated
from mmengine.logging import MMLogger
from mmengine.runner import Runner

from mmssprl.engine.runner import ConsoleRunner
from mmssprl.saving.run_files import newest_intact


def test_a_resumed_run_says_after_which_epoch(work, capfd):
    MMLogger._instance_dict.clear()  # the logger of a run in the same second has another stream
    resume_by(work)
    printed = capfd.readouterr()
    lines = (printed.out + printed.err).splitlines()
    assert "resuming after epoch 1, step 4 of 8, from run/epoch_1.pth" in lines
    assert not [line for line in lines if "Loads checkpoint" in line]


def test_a_damaged_checkpoint_is_skipped_in_one_plain_line(work, capfd):
    (work / "whole.pth").rename(work / "run/epoch_2.pth")
    truncated(work / "run/epoch_2.pth")
    (work / "run/last_checkpoint").write_text("run/epoch_2.pth")
    MMLogger.get_instance("before a run")  # as mmengine makes it; its stream is this test's
    assert newest_intact("run").name == "epoch_1.pth"
    printed = capfd.readouterr()
    line = r"warning: skipping run/epoch_2\.pth: it cannot be read \(\w+\)\.\n"
    assert re.fullmatch(line, printed.out + printed.err)


def test_what_mmengine_says_of_weights_that_do_not_match_is_logged(monkeypatch):
    said = "Loads checkpoint by local backend from path: x.pth\nsize mismatch for b.weight"
    monkeypatch.setattr(Runner, "load_checkpoint", lambda self, path: print(said))
    runner = ConsoleRunner.__new__(ConsoleRunner)
    runner.logger = Mock()
    runner.load_checkpoint("x.pth")
    runner.logger.warning.assert_called_once_with("size mismatch for b.weight")
