import importlib.metadata
import importlib.util
import re
import subprocess
import sys
from importlib.machinery import ModuleSpec

import pytest
from helpers.package.checkout import ROOT

from mmssprl import _dependencies
from mmssprl._dependencies import check_dependencies

TORCH = {"torch": "2.11.0", "torchvision": "0.26.0", "setuptools": "80.9.0"}
ONEDL = {"onedl-mmengine": "0.10.12", "onedl-mmcv": "2.3.6", "onedl-mmpretrain": "1.3.6", **TORCH}
OFFICIAL = {**TORCH, "mmengine": "0.11.0rc3", "mmcv": "2.1.0", "mmpretrain": "1.2.0"}
MODULES = {"mmcv-lite": "mmcv"}
for family in _dependencies.FAMILIES.values():
    MODULES |= {_dependencies.distribution(needed): module for module, needed in family.items()}


@pytest.fixture
def environment(monkeypatch):
    """Pretend that exactly the given distributions and ``trees`` of no distribution are there.

    Of the distributions of ``gone`` modules only their records and empty folders are left.
    """

    def pretend(versions, gone=(), trees=()):
        modules = {MODULES.get(name, name) for name in versions} - set(gone) | set(trees)

        def version(name):
            if name not in versions:
                raise importlib.metadata.PackageNotFoundError(name)
            return versions[name]

        def find_spec(name):
            if name in gone:
                return ModuleSpec(name, None)
            return ModuleSpec(name, None, origin=f"{name}.py") if name in modules else None

        monkeypatch.setattr(_dependencies.importlib.metadata, "version", version)
        monkeypatch.setattr(_dependencies.importlib.util, "find_spec", find_spec)

    return pretend


def without(versions, *names):
    return {name: version for name, version in versions.items() if name not in names}


LITE = {**without(OFFICIAL, "mmcv"), "mmcv-lite": "2.1.0"}
NEEDED = '"mmengine>=0.11.0rc3,<0.12" "mmcv>=2.1,<2.2" "mmpretrain>=1.2,<2"'
CLASH = "overwrite each other's files. To repair: pip uninstall -y"


@pytest.mark.parametrize(
    "versions",
    [
        ONEDL,
        {**ONEDL, "torch": "2.10.0", "torchvision": "0.25.0+cu126", "onedl-mmengine": "0.10.10"},
        {**ONEDL, "onedl-mmdetection": "3.5.1", "onedl-mmsegmentation": "1.4.2"},
        {**OFFICIAL, "mmdet": "3.3.0", "mmsegmentation": "1.2.2"},
        LITE,
    ],
)
def test_passes(environment, versions):
    environment(versions)
    check_dependencies()


@pytest.mark.parametrize(
    ("versions", "problem", "repair"),
    [
        (without(ONEDL, "onedl-mmpretrain"), "mmpretrain is missing", '"onedl-mmpretrain>=1.3,<2"'),
        ({**ONEDL, "torch": "2.9.1+cu118"}, "torch>=2.10, but 2.9.1", '"torch>=2.10"'),
        ({**ONEDL, "onedl-mmdetection": "3.3.0"}, "mmdet .* 3.3", '"onedl-mmdetection>=3.4,<4"'),
        ({**OFFICIAL, "mmengine": "0.10.7"}, "but 0.10.7", '"mmengine>=0.11.0rc3,<0.12"'),
        ({**ONEDL, "transformers": "5.17.0"}, "transformers<5, but 5.17.0", '"transformers<5"'),
        (
            {**ONEDL, **OFFICIAL},
            f"{CLASH} onedl-mmengine onedl-mmcv onedl-mmpretrain mmengine mmcv mmpretrain &&",
            '"onedl-mmengine>=0.10.10,<0.11" "onedl-mmcv>=2.3,<2.4" "onedl-mmpretrain>=1.3,<2"',
        ),
        ({**OFFICIAL, **LITE}, f"{CLASH} mmcv mmcv-lite &&", NEEDED),
    ],
)
def test_a_problem_is_one_line_with_its_repair(environment, versions, problem, repair):
    environment(versions)
    with pytest.raises(RuntimeError, match=f"^[^\n]*{problem}.* pip install {re.escape(repair)}$"):
        check_dependencies()


def test_files_without_a_record_are_taken(environment):
    environment(without(ONEDL, "onedl-mmcv"), trees=["mmcv"])
    check_dependencies()


def test_a_record_without_files_is_reinstalled(environment):
    environment(ONEDL, gone=["mmcv"])
    command = 'pip install --force-reinstall "onedl-mmcv>=2.3,<2.4"'
    with pytest.raises(RuntimeError, match=f"mmcv is broken: onedl-mmcv 2.3.6.*{command}$"):
        check_dependencies()


@pytest.mark.parametrize("use", ["mmssprl.pretrain", "import mmssprl.registry"])
def test_the_first_use_not_the_import_says_what_is_missing(use):
    command = [sys.executable, "-S", "-c", f"import mmssprl\nprint('here')\n{use}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("here\n", 1)
    last = done.stderr.splitlines()[-1]
    assert last.startswith("mmssprl.errors.UserRuntimeError: mmssprl cannot run")
    assert "torch is missing" in last
