"""New environments with the packages of this one, but without its mmssprl."""

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest


def call(*command, cwd, **env):
    """Run a command that sees no other mmssprl; return status and output, without colours."""
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    clean |= {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "PAGER": "cat", **env}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    done = subprocess.run([*map(str, command)], cwd=cwd, env=clean, timeout=600, **pipes)
    return done.returncode, re.sub(r"\x1b\[\d*m", "", done.stdout)


def link_packages(folder: Path) -> Path:
    """Link the packages of this environment, without mmssprl, MIM and lines of .pth files."""
    left_out = re.compile(r"(__editable__.*|.*mmssprl.*|mim|openmim.*|onedl_mim.*|.*\.pth)$")
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not left_out.match(path.name):
            (folder / path.name).symlink_to(path)
    assert (folder / "torch").is_dir()
    return folder


def make_environment(folder: Path, packages: Path, installed: str) -> Path:
    """Make an environment with one package from the registry, and ``link_packages``."""
    environment = folder / "environment"
    status, output = call(sys.executable, "-m", "venv", environment, cwd=folder)
    assert status == 0, output
    pip = (environment / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install")
    status, output = call(*pip, installed, cwd=folder)
    if "No matching distribution found" in output:
        pytest.skip(f"needs a package registry with {installed}")
    assert status == 0, output
    (site,) = environment.glob("lib/python*/site-packages")
    (site / "packages.pth").write_text(f"{packages}\n")
    return environment
