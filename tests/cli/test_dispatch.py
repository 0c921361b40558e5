import errno
import getpass
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
from mmengine.config import Config
from torch._utils import ExceptionWrapper

from mmssprl.cli import COMMANDS, build_parser, main
from mmssprl.console.messages import message_for_user
from mmssprl.errors import UserValueError
from mmssprl.pyramid import ViewLayout
from mmssprl.system.commands import command_line
from mmssprl.system.processes import command_of_process
from mmssprl.system.user_name import name_user


@pytest.mark.parametrize(
    "words",
    [
        *([], *([name] for name in COMMANDS)),
        *(["visualize", picture] for picture in ("views", "features", "figures")),
    ],
    ids=" ".join,
)
def test_every_help_shows_an_example_that_parses_as_its_command(words, capsys):
    with pytest.raises(SystemExit) as stop:
        main([*words, "--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    _, found, examples = text.partition("example")
    assert found
    lines = [line.split() for line in examples.splitlines() if "python -m mmssprl" in line]
    assert lines
    for line in lines:
        assert line[:3] == ["python", "-m", "mmssprl"]
        build_parser().parse_args(line[3:])
        assert line[3 : 3 + len(words)] == words


def test_help_imports_nothing_heavy():
    command = [sys.executable, "-X", "importtime", "-m", "mmssprl", "probe", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "usage: python -m mmssprl probe" in done.stdout
    loaded = {line.split("|")[-1].strip() for line in done.stderr.splitlines()}
    assert "argparse" in loaded
    assert not loaded & {"torch", "mmengine", "mmpretrain", "matplotlib", "sklearn", "numpy"}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "COMMAND"),
        ("prune", "COMMAND & 'prune'"),
        ("probe", "WEIGHTS"),
        ("pretrain photos --epohcs 3", "--epohcs & --epochs?"),
        ("pretrain d --xyzzy", "--xyzzy"),
        ("report run --image d", "--image is not an option & mean --images?"),
        ("visualize views c i o --overwrit", "--overwrit is not an option & mean --overwrite?"),
        ("export w --to x", "--to & 'x' & 'pth', 'safetensors',"),
        ("visualize view", "PICTURE & 'view' & 'views',"),
        ("pretrain d --epochs 1.5", "--epochs: invalid int value: '1.5'"),
        ("pretrain d --cfg-options epochs", "--cfg-options & KEY=VALUE & 'epochs'"),
        ("pretrain d --cfg-options a=[{]", "--cfg-options & a & literal & '[{]'"),
        ("pretrain d e", "e: unexpected"),
        ("pretrain d --dense", "leave it out"),
        ("pretrain d --no-such-thing --dense", "--no-such-thing is not an option"),
        ("diagnose run", "report RUN"),
        ("test config a.pth --verbose", "before the command"),
        ("--traceback probe random data", "--verbose"),
        ("export a.pth --to timm", "--to pth"),
        *((f"{name} --device gpu", "CUDA_VISIBLE_DEVICES=") for name in ("pretrain", "report")),
        ("pretrain d --gpu 0", "CUDA_VISIBLE_DEVICES=0"),
        *((f"{name} --amp", "used on GPUs by default") for name in ("pretrain d", "finetune w")),
        ("pretrain d --resume run/epoch_3.pth", "takes no path"),
        ("train c --epochs 3", "train_cfg.max_epochs"),
        ("embed w d o.npz --image-px 224x224", "the side of a square: 224"),
        ("select e --method dino", "'dino' & 'diverse', 'typical', 'outliers', 'duplicates'"),
    ],
)
def test_a_wrong_line_is_refused_in_one_line(line, words, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(line.split())
    error = capsys.readouterr().err
    command = line.partition(" ")[0]
    assert f"(see python -m mmssprl {command if command in COMMANDS else ''}" in error
    assert all(each in error for each in words.split(" & "))
    assert error.startswith("python -m mmssprl")
    assert error.endswith(" --help)\n")
    assert error.count("\n") == 1


def test_a_number_below_0_is_no_option():
    args = build_parser().parse_args(["pretrain", "photos", "--num-workers", "-1"])
    assert args.num_workers == -1


def test_a_word_after_two_dashes_is_no_option():
    args = build_parser().parse_args(["pretrain", "--", "--photos"])
    assert args.images == "--photos"


def test_the_backend_of_a_notebook_is_not_used(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "module://of_a_notebook.in_another_environment")
    run = "from mmssprl.cli import main; main(['train', 'none.py']); import matplotlib"
    done = subprocess.run([sys.executable, "-c", run], capture_output=True, text=True)
    assert done.returncode == 0
    assert "there is no none.py" in done.stderr


def test_a_user_without_a_name_gets_one(monkeypatch):
    monkeypatch.setattr(os, "environ", {})
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)  # as with `docker run --user`
    with pytest.raises(KeyError):
        getpass.getuser()
    name_user()
    assert getpass.getuser() == f"user{os.getuid()}"


def test_the_console_script_is_called_by_its_own_name(monkeypatch):
    monkeypatch.setattr("sys.argv", ["/usr/bin/mmssprl", "probe"])
    parser = build_parser()
    assert parser.prog == "mmssprl"
    assert "  mmssprl probe random " in parser.epilog
    assert command_line("probe", "a.pth") == "mmssprl probe a.pth"
    assert command_of_process() == ["mmssprl", "probe"]
    monkeypatch.setattr("sys.argv", ["/somewhere/mmssprl/__main__.py", "probe"])
    assert build_parser().prog == "python -m mmssprl"
    assert command_line("probe", "a.pth") == "python -m mmssprl probe a.pth"


def test_next_lines_name_the_folders_that_were_given(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for folder in ("photos", "my labels"):
        Path(folder).mkdir()
    weights = Path("runs/a/b.pth")
    cfg = Config({"model": {"backbone": {"type": "ResNet"}}})
    monkeypatch.setattr("mmssprl.pretraining.start.run_pretraining", lambda *_, **__: weights)
    frozen = mock.Mock()
    monkeypatch.setattr("mmssprl.system.environment.freeze_imports", frozen)
    monkeypatch.setattr("mmssprl.config.run_config.run_config", lambda folder: cfg)
    assert main(["pretrain", "photos", "--probe", "my labels"]) == 0
    tune, probe = capsys.readouterr().out.splitlines()
    assert tune == f"next: python -m mmssprl finetune {weights} 'my labels' --task classify"
    assert probe == f"next: python -m mmssprl probe {weights} random 'my labels'"
    assert main(["pretrain", "photos"]) == 0
    embed, select = capsys.readouterr().out.splitlines()
    assert embed == f"next: python -m mmssprl embed {weights} photos features.npz"
    assert select == "next: python -m mmssprl select features.npz"
    assert frozen.call_count == 2


@pytest.fixture
def probe(monkeypatch, capsys):
    """Call a `probe` that ends with an error; return its exit code, and what it has shown."""

    def probe(error, *options):
        monkeypatch.setattr(COMMANDS["probe"], "run", mock.Mock(side_effect=error))
        code = main([*options, "probe", "random", "."])
        return code, capsys.readouterr().err

    return probe


def test_ctrl_c_is_one_line(probe):
    assert probe(KeyboardInterrupt()) == (130, "mmssprl probe: stopped.\n")
    code, shown = probe(KeyboardInterrupt(), "--verbose")
    assert code == 130
    assert not shown.startswith("Traceback")


def test_a_mistake_is_one_line_unless_verbose(probe):
    assert probe(UserValueError("x must be 1.")) == (2, "mmssprl probe: error: x must be 1.\n")
    code, shown = probe(UserValueError("x must be 1."), "--verbose")
    assert code == 2
    assert shown.startswith("Traceback")


def test_a_bug_keeps_its_traceback(probe):
    with pytest.raises(ValueError, match="of nobody's making"):
        probe(ValueError("of nobody's making"))


def test_a_workers_traceback_is_left_out():
    try:
        ViewLayout.build({"levels": [{"grid": 2, "resize_px": 10, "patch_px": 9}]})
    except ValueError:
        mistake = ExceptionWrapper(where="in worker 0")
    with pytest.raises(UserValueError, match="^Caught UserValueError in worker 0") as caught:
        mistake.reraise()
    message = message_for_user(caught.value)
    assert message.startswith("levels[0]: resize_px // grid = 5 must be >= patch_px")
    assert "Traceback" not in message


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EACCES, "permission denied"),
        (errno.EROFS, "the disk is read-only"),
        (errno.ENOENT, "there is no such file or folder"),
        (errno.EDQUOT, "your quota on this disk is used up"),
    ],
)
def test_every_error_of_the_system_is_explained(number, words):
    message = message_for_user(OSError(number, os.strerror(number), "some/where"))
    assert message.startswith(f"some/where: {words}; ")
    assert message_for_user(OSError(number, os.strerror(number))).startswith(words)


def test_no_temporary_folder_is_no_wrong_path():
    text = "No usable temporary directory found in ['/tmp']"
    assert message_for_user(FileNotFoundError(errno.ENOENT, text)) == text


def test_the_doctor_prints_versions(capsys):
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    for name in ("Python", "PyTorch", "MMEngine", "mmssprl", "torchvision"):
        assert f"\n{name}: " in out
    assert "built with" not in out
    assert out.endswith("all requirements are installed.\n")


def test_the_doctor_starts_where_the_package_refuses_to(tmp_path):
    # mmpretrain has metadata, but no module.
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\n"
        "find = u.find_spec\n"
        "u.find_spec = lambda name, *more: None if name == 'mmpretrain' else find(name, *more)\n"
    )
    env = {"PYTHONPATH": f"{tmp_path}:{':'.join(sys.path)}"}

    def call(*words):
        command = [sys.executable, "-m", "mmssprl", *words]
        return subprocess.run(command, env=env, capture_output=True, text=True)

    done = call("doctor")
    assert done.returncode == 1, done.stderr
    assert "mmpretrain is broken" in done.stdout
    assert "To repair: pip install --force-reinstall" in done.stdout
    assert "usage:" in call("probe", "--help").stdout
    done = call("probe", "random", str(tmp_path))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "mmssprl probe: error: mmssprl cannot run" in done.stderr
