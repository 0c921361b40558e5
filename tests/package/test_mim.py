"""Both MIMs drive both installations, each in its own environment: the table of docs/mim.md.

An environment holds MIM, its dependencies and mmssprl; all else is linked from that of these tests.
"""

import json
import re
import sys
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import pytest
from helpers.package.checkout import build, copy_checkout
from helpers.package.environments import call, link_packages, make_environment

import mmssprl
from mmssprl.datasets.scenes import generate_scenes

pytestmark = [pytest.mark.slow, pytest.mark.fence]

VERSIONS = {"openmim": "0.3.9", "onedl-mim": "0.5.1"}
PRETRAIN = "configs/ssprl/ssprl_resnet18_scenes.py"
LINEAR = "configs/benchmarks/classification/linear_resnet18_scenes.py"
ONE_EPOCH = ("train_dataloader.batch_size=8", "train_cfg.max_epochs=1", "param_scheduler.0.T_max=1")


@dataclass(frozen=True)
class Cell:
    """An environment with one MIM and one installation of mmssprl."""

    environment: Path
    checkout: Path
    folder: Path
    python_path: str = ""  # set where this MIM does not find mmssprl: docs/mim.md

    def run(self, program, *args):
        """What a program of the environment prints."""
        path = {"PYTHONPATH": self.python_path} if program == "mim" and self.python_path else {}
        status, output = call(self.environment / "bin" / program, *args, cwd=self.folder, **path)
        assert status == 0, output
        return output


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    return link_packages(tmp_path_factory.mktemp("packages"))


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "scenes"
    return generate_scenes(folder, num_train=16, num_val=16, size_px=96, seed=0)


@pytest.fixture(
    scope="module",
    params=[*product(VERSIONS, ("wheel", "editable"))],
    ids="-".join,
)
def cell(request, packages, scenes, tmp_path_factory):
    """A new environment where ``mim install`` has installed mmssprl."""
    mim, installation = request.param
    if mim == "openmim" and sys.version_info >= (3, 12):
        pytest.skip("openmim's setuptools 60.2 does not start on Python 3.12: docs/mim.md")
    folder = tmp_path_factory.mktemp(f"{mim}-{installation}")
    work = folder / "work"
    (work / "data").mkdir(parents=True)
    (work / "data" / "scenes").symlink_to(scenes)
    environment = make_environment(folder, packages, f"{mim}=={VERSIONS[mim]}")

    (folder / "checkout").mkdir()
    cell = Cell(environment, copy_checkout(folder / "checkout"), work)
    if installation == "wheel":
        cell.run("mim", "install", build(cell.checkout, "build_wheel", folder / "wheel"))
        owner = environment
    else:
        cell.run("mim", "install", "-e", cell.checkout)
        owner = cell.checkout
    output = cell.run("python", "-c", "import mmssprl; print(mmssprl.__file__)")
    assert Path(output.splitlines()[-1]).is_relative_to(owner)
    if request.param == ("openmim", "editable"):
        return replace(cell, python_path=str(cell.checkout))
    return cell


def test_the_installed_command_finds_its_configs(cell, scenes):
    assert cell.run("mmssprl", "probe", "--help").startswith("usage: ")
    image = next((scenes / "coco" / "train2014").iterdir())
    cell.run("mmssprl", "visualize", "views", PRETRAIN, image, "views.png")


def test_list(cell):
    line = rf"(?m)^mmssprl +{re.escape(mmssprl.__version__)}"
    assert re.search(line, cell.run("mim", "list"))


def test_search(cell):
    output = cell.run("mim", "search", "mmssprl", "--display-width", "200")
    assert "config id: ssprl_resnet50_2xb64-coslr-200e_coco" in output
    assert re.search(rf"config +{PRETRAIN}", output)
    assert re.search(r"paper +https://arxiv.org/abs/2208.14439", output)


def test_download_offers_the_weights_in_the_folder_where_the_package_has_them(cell):
    if cell.python_path:
        pytest.skip("an editable install links no configs: docs/mim.md")
    output = cell.run("python", "-c", "from mmssprl.demo import WEIGHTS; print(WEIGHTS)")
    weights = Path(output.splitlines()[-1])
    name = Path(PRETRAIN).stem
    output = cell.run("mim", "download", "mmssprl", "--config", name, "--dest", weights.parent)
    assert f"{weights.name} exists in" in output
    config = weights.parent / f"{name}.py"
    assert "_base_" not in config.read_text()
    cell.run("python", "-c", f"import mmssprl; mmssprl.load_backbone({str(weights)!r})")
    config.unlink()  # onedl-mim wants each name once in a checkout


def test_run(cell):
    options = ("--work-dir", "run", "--cfg-options", *ONE_EPOCH)
    output = cell.run("mim", "run", "mmssprl", "train", PRETRAIN, *options)
    assert "The script finished successfully." in output
    assert (cell.folder / "run" / "ssprl_resnet18_scenes_backbone.pth").is_file()


def test_train_leaves_a_checkpoint_for_test(cell):
    # The name alone where MIM finds it by that, or else the path.
    config = cell.checkout / LINEAR if cell.python_path else Path(LINEAR).name
    options = ("--weights", "random", "--work-dir", "trained", "--cfg-options", *ONE_EPOCH)
    output = cell.run("mim", "train", "mmssprl", config, *options)
    assert "Training finished successfully." in output
    options = ("--checkpoint", "trained/epoch_1.pth", "--out", "metrics.json")
    output = cell.run("mim", "test", "mmssprl", config, *options)
    assert "Testing finished successfully." in output
    assert 0 < json.loads((cell.folder / "metrics.json").read_text())["multi-label/mAP"] < 100
