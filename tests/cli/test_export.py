import re
from typing import get_args

import pytest
import torch
from helpers.datasets.noise_images import images  # noqa: F401  (fixture)
from helpers.engine.pretrain_runner import make_runner
from safetensors.torch import load_file

from mmssprl.cli import main, use
from mmssprl.weights.export import TARGETS

CONFIG = "toy_ssprl.py"


@pytest.fixture(scope="module")
def run(images, tmp_path_factory):  # noqa: F811
    """A work dir after two epochs, with filled queues."""
    folder = tmp_path_factory.mktemp("run")
    make_runner(images, folder).train()
    return folder


def state_of(run):
    return torch.load(run / "epoch_2.pth", weights_only=True)["state_dict"]


def test_the_command_exports_a_run_under_the_default_name(run, capsys):
    command = ["export", str(run / "epoch_2.pth"), "--to", "safetensors"]
    assert main(command) == 0
    printed = capsys.readouterr().out
    out = run / "epoch_2.safetensors"
    want = {k: v for k, v in state_of(run).items() if k.startswith("backbone.")}
    assert re.search(rf"{out}: features differ by .* of the largest, 1e-05 is allowed", printed)
    got = load_file(out)
    assert len(got) == len(want) > 20
    assert all(torch.equal(got[k.removeprefix("backbone.")], v) for k, v in want.items())
    assert out.stat().st_mode & 0o044, "others can read it"
    assert main(command) == 2
    assert "overwrite" in capsys.readouterr().err
    assert main([*command, "--overwrite"]) == 0


def test_every_target_is_offered():
    assert tuple(TARGETS) == get_args(use.Target)
