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
MODULES = {
    "onedl-mmengine": "mmengine",
    "onedl-mmcv": "mmcv",
    "onedl-mmpretrain": "mmpretrain",
    "onedl-mmdetection": "mmdet",
    "onedl-mmsegmentation": "mmseg",
    "mmcv-lite": "mmcv",
    "mmsegmentation": "mmseg",
}


@pytest.fixture
def environment(monkeypatch):
    """Pretend that exactly the given distributions are installed; ``gone`` cannot be imported.

    ``trees`` can, though no record of them is there.
    """

    def pretend(versions, gone=(), namespace=(), trees=()):
        modules = {MODULES.get(name, name) for name in versions} - set(gone) | set(trees)

        def version(name):
            if name not in versions:
                raise importlib.metadata.PackageNotFoundError(name)
            return versions[name]

        def find_spec(name):
            if name in namespace:
                return ModuleSpec(name, None)
            return ModuleSpec(name, None, origin=f"{name}.py") if name in modules else None

        monkeypatch.setattr(_dependencies.importlib.metadata, "version", version)
        monkeypatch.setattr(_dependencies.importlib.util, "find_spec", find_spec)

    return pretend


def without(versions, *names):
    return {name: version for name, version in versions.items() if name not in names}


LITE = {**without(OFFICIAL, "mmcv"), "mmcv-lite": "2.1.0"}


def message():
    with pytest.raises(RuntimeError) as caught:
        check_dependencies()
    return str(caught.value)


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


PROBLEMS = [
    (without(ONEDL, "onedl-mmpretrain"), "mmpretrain is missing", "onedl-mmpretrain>=1.3,<2"),
    ({**ONEDL, "torch": "2.9.1+cu118"}, "torch>=2.10, but 2.9.1", "torch>=2.10"),
    ({**ONEDL, "onedl-mmdetection": "3.3.0"}, "mmdet .* 3.3.0", "onedl-mmdetection>=3.4,<4"),
    ({**OFFICIAL, "mmengine": "0.10.7"}, "but 0.10.7", "mmengine>=0.11.0rc3,<0.12"),
    ({**ONEDL, "transformers": "5.17.0"}, "transformers<5, but 5.17.0", "transformers<5"),
]


@pytest.mark.parametrize(("versions", "problem", "repair"), PROBLEMS)
def test_one_problem(environment, versions, problem, repair):
    environment(versions)
    text = message()
    assert re.search(problem, text)
    assert text.endswith(f': pip install "{repair}"')
    assert "\n" not in text


@pytest.mark.parametrize(
    ("versions", "removed"),
    [
        ({**ONEDL, **OFFICIAL}, "onedl-mmengine onedl-mmcv onedl-mmpretrain mmengine mmcv mmpret"),
        ({**OFFICIAL, **LITE}, "mmcv mmcv-lite && pip install"),
    ],
)
def test_two_owners_of_the_same_files(environment, versions, removed):
    environment(versions)
    assert f"overwrite each other's files. To repair: pip uninstall -y {removed}" in message()


def test_a_record_without_files_is_reinstalled_and_files_without_one_are_taken(environment):
    environment(without(ONEDL, "onedl-mmcv"), trees=["mmcv"])
    check_dependencies()
    environment(ONEDL, gone=["mmcv"], namespace=["mmcv"])
    text = message()
    assert "mmcv is broken: onedl-mmcv 2.3.6" in text
    assert text.endswith('pip install --force-reinstall "onedl-mmcv>=2.3,<2.4"')


def test_import_ends_no_notebook_and_the_first_use_tells_what_is_missing():
    for use in ("mmssprl.pretrain", "import mmssprl.registry"):
        command = [sys.executable, "-S", "-c", f"import mmssprl\nprint('here')\n{use}"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert (done.stdout, done.returncode) == ("here\n", 1)
        last = done.stderr.splitlines()[-1]
        assert last.startswith("mmssprl.errors.UserRuntimeError: mmssprl cannot run")
        assert "torch is missing" in last
