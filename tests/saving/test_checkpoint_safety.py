import itertools
import os
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers.saving.toy_checkpoint import LOADING, RESUMING, resume_by, train_toy, truncated
from helpers.weights.traps import Call
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.logging import HistoryBuffer
from mmengine.model import initialize
from mmengine.optim import OptimWrapper, OptimWrapperDict
from mmengine.runner import Runner
from mmengine.runner.checkpoint import CheckpointLoader
from torch import nn
from torch.optim import SGD

from mmssprl.errors import UserError
from mmssprl.saving.checkpoint_hooks import SafeCheckpointHook
from mmssprl.weights import read_checkpoint


def poisoned(path):
    """Let a file make a folder when it is unpickled; return that folder."""
    folder = path.parent / "sprung"
    content = torch.load(path, weights_only=True)
    torch.save({**content, "trap": Call(os.mkdir, str(folder))}, path)
    torch.load(path, weights_only=False)
    folder.rmdir()  # fails unless the trap works
    return folder


def resume_by_the_runner_alone(work):
    cfg = Config.fromfile("toy.py")
    cfg.update(work_dir="run", resume=True, load_from="run/epoch_1.pth", launcher="none")
    Runner.from_cfg(cfg).train()


def foreign(path):
    torch.save([1, 2, 3], path)


@pytest.mark.parametrize(
    ("damage", "path"),
    [
        *itertools.product((truncated, foreign, poisoned), (*RESUMING, *LOADING)),
        (poisoned, resume_by_the_runner_alone),
    ],
)
def test_what_is_no_checkpoint_is_refused_before_it_runs(work, damage, path):
    damage(work / "run/epoch_1.pth")
    with pytest.raises(UserError, match=r"run/epoch_1.pth") as caught:
        path(work)
    assert "\n" not in str(caught.value)
    assert not (work / "new").exists(), "found before anything is written"
    assert not (work / "run/sprung").exists()


class TestTraps:
    def test_in_the_config_that_an_old_checkpoint_holds(self, work):
        """mmengine runs ``meta['config']`` as Python when it resumes."""
        path = work / "run/epoch_1.pth"
        folder = work / "sprung"
        content = torch.load(path, weights_only=True)
        content["meta"]["config"] = f"import os\nos.mkdir({str(folder)!r})\n"
        torch.save(content, path)
        Config.fromstring(content["meta"]["config"], file_format=".py")
        folder.rmdir()
        resume_by(work)
        assert (work / "run/epoch_2.pth").exists()
        assert not folder.exists()

    @pytest.mark.parametrize(
        "name", ["w.pth", "https://example.org/w.pth", "torchvision://w", "open-mmlab://w"]
    )
    def test_in_weights_of_any_scheme(self, tmp_path, monkeypatch, name):
        """As named by a model's ``init_cfg``."""
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("TORCH_HOME", str(tmp_path / "home"))
        torch.save({"state_dict": nn.Linear(2, 3).state_dict()}, tmp_path / "w.pth")
        folder = poisoned(tmp_path / "w.pth")

        for models in ("torchvision", "external"):
            function = f"mmssprl.saving.safe_files.get_{models}_models"
            monkeypatch.setattr(function, lambda: {"w": "https://example.org/w.pth"})

        downloads = []

        def download(url, target, progress):
            downloads.append(url)
            shutil.copy(tmp_path / "w.pth", target)

        monkeypatch.setattr("torch.hub.download_url_to_file", download)

        for _ in range(2):
            with pytest.raises(UserError, match=r"w\.pth cannot be read"):
                initialize(nn.Linear(2, 3), {"type": "Pretrained", "checkpoint": name})
        assert downloads == ([] if name == "w.pth" else ["https://example.org/w.pth"])
        assert not folder.exists()

    def test_every_scheme_of_mmengine_has_a_reader_of_ours(self):
        schemes = CheckpointLoader._schemes
        assert {"", "http://", "https://", "pavi://", "mmcls://"} <= schemes.keys()
        assert {loader.__module__ for loader in schemes.values()} == {"mmssprl.saving.safe_files"}

    @pytest.mark.parametrize(
        "name",
        [
            "s3://a/b.pth",
            "petrel://a",
            "open-mmlab:s3://a",
            "pavi://a",
            "mmcls://w",
            "torchvision://nothing",
            "open-mmlab://nothing",
        ],
    )
    def test_a_scheme_of_a_service_is_refused(self, name):
        with pytest.raises(UserError, match=rf"http.*{name}"):
            CheckpointLoader.load_checkpoint(name)


def test_several_optimizers_are_refused_before_the_first_step():
    parts = {name: OptimWrapper(SGD(nn.Linear(1, 1).parameters(), lr=0.1)) for name in "ab"}
    runner = SimpleNamespace(optim_wrapper=OptimWrapperDict(**parts))
    with pytest.raises(UserError, match="^optim_wrapper must have one optimizer, but got 2; "):
        SafeCheckpointHook().before_train(runner)


class StopAfter(Hook):
    """Ends the training after an epoch, as EarlyStoppingHook does."""

    def __init__(self, epoch):
        self.epoch = epoch

    def after_train_epoch(self, runner):
        runner.train_loop.stop_training = runner.epoch + 1 == self.epoch


@pytest.mark.parametrize("epoch", [2, 3])
def test_a_training_that_a_hook_ends_is_saved(tmp_path, epoch):
    every_third = "default_hooks = dict(checkpoint=dict(type='CheckpointHook', interval=3))\n"
    train_toy(tmp_path, StopAfter(epoch), epochs=5, text=every_third)
    assert [path.name for path in (tmp_path / "run").glob("*.pth")] == [f"epoch_{epoch}.pth"]
    meta = read_checkpoint(tmp_path / f"run/epoch_{epoch}.pth")["meta"]
    assert (meta["epoch"], meta["iter"]) == (epoch, 4 * epoch)


@pytest.mark.parametrize("core", ["numpy.core", "numpy._core"])
def test_a_history_as_mmengine_writes_it_with_either_numpy_is_read(tmp_path, core):
    """mmengine's own hook writes histories as objects."""
    path = tmp_path / "w.pth"
    buffer = HistoryBuffer([1.0, 2.0], [1, 3])
    torch.save({"loss": buffer}, path, _use_new_zipfile_serialization=False)
    here = np.zeros(1).__reduce__()[0].__module__.removesuffix(".multiarray").encode()
    assert here + b".multiarray" in path.read_bytes()
    # Protocol 2 ends names with a newline, so their length may change.
    path.write_bytes(path.read_bytes().replace(b"c" + here + b".", b"c" + core.encode() + b"."))
    found = read_checkpoint(path)["loss"]
    assert [each.tolist() for each in found.data] == [[1, 2], [1, 3]]
    assert found.statistics("mean") == buffer.statistics("mean")
