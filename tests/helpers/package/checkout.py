"""A copy of the checkout, and pip's ways to build it."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


PACKAGED = [
    *("mmssprl", "configs", "tools", "requirements"),
    *("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "model-index.yml"),
]


def build(source: Path, hook: str, out: Path) -> Path:
    """Call a hook of the build backend, as pip does, and return what it has made."""
    out.mkdir(exist_ok=True)
    code = f"import setuptools.build_meta as b; print(b.{hook}({str(out)!r}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out / done.stdout.splitlines()[-1]


def copy_checkout(target: Path) -> Path:
    """Copy what is packaged, with the leftovers that a checkout in use has."""
    ignore = shutil.ignore_patterns("__pycache__", ".mim")
    for name in PACKAGED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target / name, ignore=ignore)
        else:
            shutil.copy(ROOT / name, target / name)
    (target / "configs" / "__pycache__").mkdir()
    (target / "configs" / "__pycache__" / "a.cpython-311.pyc").write_text("")
    stale = target / "build" / "lib" / "mmssprl" / ".mim" / "configs"
    stale.mkdir(parents=True)
    (stale / "deleted.py").write_text("")
    return target
