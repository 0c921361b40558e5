import io
import logging
import os
import re
import sys
import warnings

import pytest
from mmengine.logging import MMLogger, print_log
from pycocotools.coco import COCO

from mmssprl.console import quiet
from mmssprl.console.log_line import LogLine
from mmssprl.console.messages import message_for_user
from mmssprl.console.quiet import import_quietly, keep_off_console, quiet_console, say
from mmssprl.errors import UserValueError

PACKAGE = "/env/site-packages/mmengine/runner/runner.py"
FOREIGN = "/env/site-packages/mmdet/evaluation/metric.py"


@pytest.fixture
def log(tmp_path):
    """A logger as a runner builds it, with its console and its file."""
    logger = MMLogger(str(tmp_path), log_file=str(tmp_path / "run.log"))
    (handler,) = (h for h in logger.handlers if not isinstance(h, logging.FileHandler))
    handler.stream = io.StringIO()
    return logger, handler.stream, tmp_path / "run.log"


@pytest.fixture
def warned():
    """The Python warnings that are shown."""
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        yield shown


def warn(text, category=UserWarning, filename=FOREIGN):
    warnings.warn_explicit(text, category, filename, 1)


def tell(logger, text, level=logging.INFO, function="dump", path=PACKAGE):
    """Log as a package does."""
    logger.handle(logger.makeRecord("", level, path, 1, text, (), None, function))


def test_logs_of_packages_reach_only_the_file(log):
    logger, shown, file = log
    with quiet_console():
        keep_off_console(logger)
        keep_off_console(logger)  # once more changes nothing
        tell(logger, "Config: model = dict()")
        tell(logger, "per class results", function="print_log")
        tell(logger, "two keys do not match", logging.WARNING)
        tell(logger, LogLine("Epoch(train) [1][10/10]  lr: 1e-3", "epoch 1.00/8"))
        tell(logger, "Epoch(val) [1]  accuracy: 0.5", path=PACKAGE.replace("runner", "logger_hook"))
        logger.info("photo.jpg is empty")
    lines = shown.getvalue().splitlines()
    expected = ["per class results", "two keys do not match", "^epoch 1.00/8$", "accuracy", "photo"]
    assert all(re.search(text, line) for text, line in zip(expected, lines, strict=True))
    counts = {"lr: 1e-3": 1, "epoch 1.00/8": 0, "Config: ": 1, "photo.jpg": 1}
    assert {text: file.read_text().count(text) for text in counts} == counts


def test_letters_that_pictures_lack_are_warned_of_if_verbose(warned):
    text = "Glyph 20013 (CJK UNIFIED IDEOGRAPH-4E2D) missing from font(s) DejaVu Sans."
    with quiet_console():
        warn(text, filename="/own/outputs.py")
    assert not warned
    with quiet_console(verbose=True):
        warn(text, filename="/own/outputs.py")
    assert len(warned) == 1


@pytest.fixture
def cleared(monkeypatch):
    """Counts how often the live line was erased for another line."""
    found = []
    monkeypatch.setattr(quiet, "clear_live_line", lambda: found.append(1))
    return found


def test_a_shown_line_of_a_log_erases_the_live_line(log, cleared):
    logger, *_ = log
    keep_off_console(logger)
    tell(logger, "Config: model = dict()")  # for the file only
    assert cleared == []
    logger.info("photo.jpg is empty")
    assert cleared == [1]


def test_what_a_command_says_erases_the_live_line(cleared, capsys):
    say("config: a.py")
    assert cleared == [1]


def test_warnings_that_a_user_can_act_on_are_shown_alone(warned):
    with quiet_console():
        warn("early")
        warn("late", FutureWarning, "/env/site-packages/torch/nn.py")
        warn("the driver is too old", filename="/env/site-packages/torch/cuda.py")
    assert [str(warning.message) for warning in warned] == ["the driver is too old"]
    warn("the block is over")
    assert len(warned) == 2


def test_verbose_changes_nothing(log, warned, tmp_path, monkeypatch, capsys):
    logger, shown, _ = log
    (tmp_path / "printing_module.py").write_text("print('Could not import OneDL')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with quiet_console(verbose=True):
        keep_off_console(logger)
        tell(logger, "Config: model = dict()")
        warn("early")
        import_quietly("printing_module")
        COCO().createIndex()
    assert "Config: " in shown.getvalue()
    assert len(warned) == 1
    printed = capsys.readouterr().out
    assert all(text in printed for text in ("Could not import OneDL\n", "index created!\n"))


def test_prints_of_packages_are_dropped(capsys):
    with quiet_console():
        COCO().createIndex()
        print("epoch 1", end="", flush=True)
        print(" of 2")
        assert sys.stdout.encoding.lower() == "utf-8"
        print(os.fsdecode(b"a\xff"))
    assert capsys.readouterr().out == "epoch 1 of 2\na\\udcff\n"


def test_control_characters_are_escaped_in_what_is_said(capsys):
    say("classes: a\x1b[31mb\n  c\u202ed")
    assert capsys.readouterr().out == "classes: a\\x1b[31mb\n  c\\u202ed\n"


def test_control_characters_are_escaped_in_errors():
    assert message_for_user(UserValueError("a\rb;\nc")) == "a\\rb;\nc"
    message = message_for_user(FileNotFoundError(2, "no file", "a\x9bb"))
    assert message.startswith("a\\x9bb: there is no such file")


def test_a_fine_tuning_shows_no_line_of_a_package(log):
    logger, shown, file = log
    with quiet_console():
        keep_off_console(logger, tables=False)
        for level in (logging.INFO, logging.WARNING, logging.ERROR):
            metric = {"__name__": "mmdet.evaluation", "print_log": print_log, "logger": logger}
            exec(f"print_log('nothing found', logger, level={level})", metric)
            tell(logger, "The testing results of the whole dataset is empty.", level)
            print_log("photo.jpg is empty", logger, level=level)
    lines = shown.getvalue().splitlines()
    assert lines == ["warning: photo.jpg is empty", "error: photo.jpg is empty"]
    assert file.read_text().count("nothing found") == 3
