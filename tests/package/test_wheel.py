"""The wheel that `python -m build` makes, in a new environment without a checkout."""

from pathlib import Path

import pytest
from helpers.package.checkout import copy_checkout
from helpers.package.environments import call, link_packages, make_environment

import mmssprl

pytestmark = pytest.mark.slow

CONFIG = "configs/ssprl/ssprl_resnet18_scenes.py"


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """An environment with the built wheel, and an empty folder to work in."""
    folder = tmp_path_factory.mktemp("wheel")
    packages = link_packages(tmp_path_factory.mktemp("packages"))
    environment = make_environment(folder, packages, "build")
    python = environment / "bin/python"
    (folder / "checkout").mkdir()
    checkout = copy_checkout(folder / "checkout")
    (folder / "work").mkdir()
    status, output = call(
        *(python, "-m", "build", "--wheel", "--outdir", folder, checkout), cwd=folder / "work"
    )
    assert status == 0, output

    wheel = folder / f"mmssprl-{mmssprl.__version__}-py3-none-any.whl"
    status, output = call(
        *(python, "-m", "pip", "install", "--no-deps", wheel), cwd=folder / "work"
    )
    assert status == 0, output
    return environment


@pytest.fixture
def run(environment):
    """Call the installed command in the empty folder; return what it prints."""

    def run(*words):
        folder = environment.parent / "work"
        status, output = call(environment / "bin/mmssprl", *words, cwd=folder)
        assert status == 0, output
        return output

    return run


@pytest.fixture(scope="module")
def demo(environment):
    folder = environment.parent / "work"
    status, output = call(environment / "bin/mmssprl", "demo", "--seeds", "1", cwd=folder)
    assert status == 0, output
    return folder / "work_dirs/demo", output


def test_the_command_is_of_the_wheel(environment):
    line = "import mmssprl; print(mmssprl.__file__)"
    _, output = call(environment / "bin/python", "-c", line, cwd=environment.parent / "work")
    assert Path(output.splitlines()[-1]).is_relative_to(environment)


def test_the_demo_makes_its_table(demo):
    folder, output = demo
    assert (folder / "compare.png").is_file()
    assert output.splitlines()[-1].startswith("next: mmssprl pretrain photos/")


def test_a_pretraining_proposes_a_command_that_runs(demo, run):
    photos = next(demo[0].glob("**/train2014"))
    words = ["--backbone", "resnet18", "--image-px", "64", "--epochs", "1", "--work-dir", "run"]
    output = run("pretrain", photos, *words, "--batch-size", "64")
    embed = next(line for line in output.splitlines() if line.startswith("next: mmssprl embed "))
    weights = embed.split()[3]
    assert "images, " in run("embed", weights, photos, "features.npz", "--image-px", "64")


def test_a_shipped_config_trains(demo, run):
    photos = next(demo[0].glob("**/train2014"))
    data = f"train_dataloader.dataset.data_root={photos}"
    options = ["train_cfg.max_epochs=1", "param_scheduler.0.T_max=1", data]
    run("train", CONFIG, "--work-dir", "trained", "--cfg-options", *options)
    assert (demo[0].parents[1] / "trained/ssprl_resnet18_scenes_backbone.pth").is_file()
