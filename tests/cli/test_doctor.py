import subprocess
import sys
from types import SimpleNamespace

import pytest

from mmssprl.cli import main
from mmssprl.system import doctor


@pytest.fixture(autouse=True)
def devices(monkeypatch):
    """What the process says that imports torch; most tests do without it."""
    said = SimpleNamespace(returncode=0, stdout="torch 2.11.0, no GPU\n", stderr="")
    monkeypatch.setattr(doctor, "subprocess", SimpleNamespace(run=lambda *args, **options: said))
    return said


@pytest.fixture
def installed(monkeypatch):
    """Versions to pretend, None for what is missing; all else is as it is here."""
    pretended = {}
    found = doctor.installed_version
    monkeypatch.setattr(doctor, "installed_version", lambda n: pretended.get(n, found(n)))
    return pretended


def lines(capsys):
    """State and name of each finding, and what is said below them."""
    findings, advice = capsys.readouterr().out.split("\n\n")
    return {line.split()[1]: line.split()[0] for line in findings.splitlines()}, advice


def test_all_is_well_here(capsys):
    assert main(["doctor"]) == 0
    states, advice = lines(capsys)
    assert states["packages"] == states["devices"] == states["Python"] == "ok"
    assert "missing" not in states.values()
    assert advice.endswith("everything that is needed is here.\n")


def test_a_missing_or_old_requirement_and_a_missing_extra(capsys, monkeypatch, installed):
    requires = {"mmssprl": ["pillow>=12.3", "numpy", "rich", 'pyarrow; extra == "embed"']}
    monkeypatch.setattr(doctor.importlib.metadata, "requires", requires.__getitem__)
    installed |= {"rich": None, "pyarrow": None, "pillow": "12.2.0"}
    assert main(["doctor"]) == 1
    states, advice = lines(capsys)
    assert (states["packages"], states["pyarrow"]) == ("missing", "note")
    assert "packages: pip install 'pillow>=12.3' rich\n" in advice
    assert "pyarrow: pip install pyarrow (only for embed to .parquet)\n" in advice
    assert advice.endswith("missing: packages\n")


def test_two_builds_of_opencv_are_told_with_the_command_that_leaves_one(capsys, installed):
    installed |= dict.fromkeys(doctor._OPENCV_BUILDS)
    installed |= {"opencv-python": "4.12.0.88", "opencv-contrib-python": "4.11.0"}
    assert main(["doctor"]) == 0
    states, advice = lines(capsys)
    assert states["cv2"] == "note"
    command = "pip uninstall -y opencv-python opencv-contrib-python && pip install opencv-python=="
    assert f"cv2: {command}4.12.0.88\n" in advice
    installed["opencv-contrib-python"] = None
    assert main(["doctor"]) == 0
    assert "cv2" not in lines(capsys)[0]


def test_a_torch_that_does_not_start(capsys, devices):
    devices.returncode, devices.stderr = 1, "Traceback ...\nImportError: libcudart.so.12\n"
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "torch does not start (ImportError: libcudart.so.12)" in out
    assert out.endswith("missing: devices\n")


def test_little_disk_and_an_old_python_are_told(capsys, monkeypatch):
    disk = SimpleNamespace(total=10e9, free=1e9)
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: disk)
    monkeypatch.setattr(doctor.sys, "version_info", (3, 10, 14))
    assert main(["doctor"]) == 1
    states, advice = lines(capsys)
    assert (states["disk"], states["Python"]) == ("note", "missing")
    assert "disk: free some space, or work in another folder\n" in advice


def test_it_starts_where_the_package_refuses_to(tmp_path):
    # mmpretrain is recorded as installed, and nothing is there to import.
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
    assert "OpenMMLab: pip install --force-reinstall" in done.stdout
    assert done.stdout.endswith("missing: OpenMMLab\n")
    assert "usage:" in call("probe", "--help").stdout
    done = call("probe", "random", str(tmp_path))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "mmssprl probe: error: mmssprl cannot run" in done.stderr
