import subprocess
import sys

from mmssprl.cli import main


def test_versions_are_printed(capsys):
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    for name in ("Python", "PyTorch", "MMEngine", "mmssprl", "torchvision"):
        assert f"\n{name}: " in out
    assert "built with" not in out
    assert out.endswith("all requirements are installed.\n")


def test_it_starts_where_the_package_refuses_to(tmp_path):
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
