"""No file of weights or of a training runs code, and what cannot be used says so in one line."""

import os
import shutil
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.logging import HistoryBuffer
from mmengine.model import initialize
from mmengine.runner.checkpoint import CheckpointLoader
from probe_folders import write_coco
from test_checks import CONFIG as LINEAR
from tiny_benchmark import save_backbone
from torch import nn
from toy_run import write_config

from mmssprl import cli
from mmssprl.engine.checkpoint_checks import check_fit_of_checkpoint
from mmssprl.engine.initial_weights import apply_weights
from mmssprl.engine.launch import prepare_test_config, prepare_train_config, run
from mmssprl.errors import UserError
from mmssprl.models import FeatureQueue
from mmssprl.weights import read_checkpoint, read_training_checkpoint
from mmssprl.weights.safe_globals import training_types_allowed

NARROW = {
    **{"type": "ResNet", "depth": 18, "stem_channels": 8, "base_channels": 8, "num_stages": 2},
    **{"strides": (1, 2), "dilations": (1, 1), "out_indices": (1,)},
}
"""The backbone of the linear config."""


class Trap:
    """Makes a folder where it is unpickled."""

    def __init__(self, folder):
        self.folder = str(folder)

    def __reduce__(self):
        return os.mkdir, (self.folder,)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The work dir of a toy training of two epochs."""
    folder = tmp_path_factory.mktemp("trained")
    config = write_config(folder)
    config.write_text(config.read_text() + SCHEDULE)
    run(prepare_train_config(config, work_dir=folder / "run"), "train")
    return folder / "run"


SCHEDULE = """
train_cfg = dict(by_epoch=True, max_epochs=2)
param_scheduler = [dict(type="CosineAnnealingLR", T_max=2)]
"""


@pytest.fixture
def work(trained, tmp_path, monkeypatch):
    """A copy of it as ``run`` in the current folder, as if stopped after the first epoch.

    The toy's config is beside it as ``toy.py``, and the second epoch's checkpoint as ``whole.pth``.
    """
    monkeypatch.chdir(tmp_path)
    shutil.copytree(trained, tmp_path / "run")
    config = write_config(tmp_path)
    config.write_text(config.read_text() + SCHEDULE)
    (tmp_path / "run/last_checkpoint").write_text("run/epoch_1.pth")
    (tmp_path / "run/epoch_2.pth").rename(tmp_path / "whole.pth")
    return tmp_path


def poison(path, content=None):
    """Put a trap into a file, and return the folder that it would make."""
    folder = path.parent / "sprung"
    content = torch.load(path, weights_only=False) if content is None else content
    torch.save({**content, "trap": Trap(folder)}, path)
    torch.load(path, weights_only=False)
    folder.rmdir()  # the trap works, or there would be none
    return folder


def go_on(work):
    run(prepare_train_config("toy.py", work_dir="run", resume="auto"), "train")


def resume_file(work):
    prepare_train_config("toy.py", work_dir="run", resume="run/epoch_1.pth")


def resume_newest(work):
    prepare_train_config("toy.py", work_dir="run", resume="auto")


def resume_by_config(work):
    options = {"resume": True, "load_from": "run/epoch_1.pth"}
    prepare_train_config("toy.py", work_dir="new", cfg_options=options)


def load_from(work):
    options = {"load_from": "run/epoch_1.pth"}
    run(prepare_train_config("toy.py", work_dir="new", cfg_options=options), "train")


def tools_test(work):
    run(prepare_test_config("toy.py", "run/epoch_1.pth", work_dir="new"), "test")


def tools_test_of_a_folder(work):
    run(prepare_test_config("toy.py", "run", work_dir="new"), "test")


def resume_by_the_runner_alone(work):
    cfg = Config.fromfile("toy.py")
    cfg.update(work_dir="run", resume=True, load_from="run/epoch_1.pth", launcher="none")
    from mmengine.runner import Runner

    Runner.from_cfg(cfg).train()


RESUMING = [resume_file, resume_newest, resume_by_config]
LOADING = [load_from, tools_test, tools_test_of_a_folder]


class TestTraps:
    @pytest.mark.parametrize("path", [*RESUMING, *LOADING, resume_by_the_runner_alone])
    def test_in_a_checkpoint(self, work, path):
        folder = poison(work / "run/epoch_1.pth")
        if path in RESUMING:
            with pytest.raises(UserError, match=r"epoch_1.pth cannot be read as one \(Unpickl"):
                path(work)
        else:
            path(work)  # weights are all that is taken
        assert not folder.exists()

    def test_in_the_config_that_an_old_checkpoint_holds(self, work):
        """mmengine runs ``meta['config']`` as Python when it resumes."""
        path, folder = work / "run/epoch_1.pth", work / "sprung"
        content = torch.load(path, weights_only=False)
        content["meta"]["config"] = f"import os\nos.mkdir({str(folder)!r})\n"
        torch.save(content, path)
        Config.fromstring(content["meta"]["config"], file_format=".py")
        folder.rmdir()
        go_on(work)
        assert (work / "run/epoch_2.pth").exists()
        assert not folder.exists()

    @pytest.mark.parametrize(
        "name", ["w.pth", "https://example.org/w.pth", "torchvision://w", "open-mmlab://w"]
    )
    def test_in_weights_of_any_scheme(self, tmp_path, monkeypatch, name):
        """As a model's ``init_cfg`` names them."""
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("TORCH_HOME", str(tmp_path / "home"))
        layer = nn.Linear(2, 3)
        folder = poison(tmp_path / "w.pth", {"state_dict": layer.state_dict()})
        loader = "mmssprl.engine.checkpoint_loader"
        for places in ("get_torchvision_models", "get_external_models"):
            monkeypatch.setattr(f"{loader}.{places}", lambda: {"w": "https://example.org/w.pth"})
        downloads = []

        def download(url, target, progress):
            downloads.append(url)
            shutil.copy(tmp_path / "w.pth", target)

        monkeypatch.setattr("torch.hub.download_url_to_file", download)
        for _ in range(2):
            other = nn.Linear(2, 3)
            initialize(other, {"type": "Pretrained", "checkpoint": name})
            assert torch.equal(other.weight, layer.weight)
        assert downloads == ([] if name == "w.pth" else ["https://example.org/w.pth"])
        assert not folder.exists()

    def test_every_scheme_of_mmengine_is_closed(self):
        schemes = CheckpointLoader._schemes
        assert {"", "http://", "https://", "pavi://", "mmcls://"} <= schemes.keys()
        assert {loader.__module__ for loader in schemes.values()} == {
            "mmssprl.engine.checkpoint_loader"
        }
        for name in ("s3://a/b.pth", "petrel://a", "open-mmlab:s3://a", "pavi://a"):
            with pytest.raises(UserError, match=rf"a file or an http.* but got {name}; download"):
                CheckpointLoader.load_checkpoint(name)

    @pytest.mark.parametrize(
        "words",
        [
            ["export", "w.pth", "--to", "backbone", "--out", "o.pth"],
            ["convert", "w.pth", "--from", "auto", "--out", "o.pth"],
            ["probe", "w.pth", "coco"],
            ["benchmark", "w.pth", "--protocols", "linear", "--data", ".", "--dry-run"],
        ],
        ids=lambda words: words[0],
    )
    def test_in_what_a_command_reads(self, tmp_path, monkeypatch, words):
        monkeypatch.chdir(tmp_path)
        write_coco(tmp_path)
        save_backbone(tmp_path / "w.pth", NARROW)
        folder = poison(tmp_path / "w.pth")
        opened = []
        read = torch.load
        monkeypatch.setattr(
            torch, "load", lambda f, **kw: opened.append(Path(f).name) or read(f, **kw)
        )
        cli.main(words)
        assert "w.pth" in opened
        assert not folder.exists()

    def test_in_the_weights_of_a_transfer_training(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "linear.py").write_text(LINEAR)
        save_backbone(tmp_path / "w.pth", NARROW, with_config=False)
        folder = poison(tmp_path / "w.pth")
        cfg = Config.fromfile("linear.py")
        apply_weights(cfg, "w.pth")
        assert cfg.custom_hooks[0].weights.endswith("w.pth")
        assert not folder.exists()

    def test_the_stand_in_for_getattr_reaches_nothing_else(self, tmp_path):
        class Method:
            def __reduce__(self):
                return getattr, (HistoryBuffer, "update")

        torch.save({"a": Method()}, tmp_path / "w.pth")
        with pytest.raises(UserError, match="cannot be read as one"):
            read_training_checkpoint(tmp_path / "w.pth")

    def test_torchscript_archives_are_refused(self, tmp_path):
        torch.jit.script(nn.Linear(1, 1)).save(str(tmp_path / "w.pth"))
        with pytest.raises(UserError, match=r"w.pth cannot be read \("):
            read_checkpoint(tmp_path / "w.pth")


class TestOwnCheckpoints:
    def test_load_by_weights_only_and_whole(self, trained):
        path = trained / "epoch_1.pth"
        before = set(torch.serialization.get_safe_globals())
        with training_types_allowed():
            content = torch.load(path, weights_only=True)
        expected = torch.load(path, weights_only=False)
        assert content["meta"] == expected["meta"]
        scalars = content["message_hub"]["log_scalars"]
        assert "train/loss" in scalars
        for name, buffer in expected["message_hub"]["log_scalars"].items():
            for mine, theirs in zip(scalars[name].data, buffer.data, strict=True):
                assert np.array_equal(mine, theirs)
            assert scalars[name].statistics("mean") == buffer.statistics("mean")
        assert content["message_hub"]["runtime_info"] == expected["message_hub"]["runtime_info"]
        assert set(torch.serialization.get_safe_globals()) == before

    @pytest.mark.parametrize("core", ["numpy.core", "numpy._core"])
    def test_of_both_numpys(self, trained, tmp_path, core):
        with zipfile.ZipFile(trained / "epoch_1.pth") as old:
            parts = {name: old.read(name) for name in old.namelist()}
        here = np.zeros(1).__reduce__()[0].__module__.removesuffix(".multiarray").encode()
        data = next(name for name in parts if name.endswith("data.pkl"))
        assert here + b".multiarray" in parts[data]
        # Protocol 2 ends names by a newline, so their length is free.
        parts[data] = parts[data].replace(b"c" + here + b".", b"c" + core.encode() + b".")
        with zipfile.ZipFile(tmp_path / "w.pth", "w") as new:
            for name, part in parts.items():
                new.writestr(name, part)
        content = read_training_checkpoint(tmp_path / "w.pth")
        assert len(content["message_hub"]["log_scalars"]["train/loss"].data[0]) == 4

    def test_resume_as_if_never_stopped(self, work):
        go_on(work)
        resumed, whole = (
            torch.load(path, weights_only=False) for path in ("run/epoch_2.pth", "whole.pth")
        )
        for key, value in whole["state_dict"].items():
            assert torch.equal(resumed["state_dict"][key], value)
        losses = [c["message_hub"]["log_scalars"]["train/loss"].data[0] for c in (resumed, whole)]
        assert losses[0].tolist() == losses[1].tolist()
        assert len(losses[0]) == 8


def truncated(path):
    path.write_bytes(path.read_bytes()[:-100])


def empty(path):
    path.write_bytes(b"")


def image(path):
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))


def archive(path):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a.txt", "a")


def safetensors(path):
    from safetensors.torch import save_file

    save_file({"linear.weight": torch.zeros(1, 1)}, path)


def foreign(path):
    torch.save([1, 2, 3], path)


def without(*keys):
    def change(path):
        content = torch.load(path, weights_only=False)
        torch.save({k: v for k, v in content.items() if k not in keys}, path)

    change.__name__ = f"without_{'_'.join(keys)}"
    return change


def plain_state(path):
    torch.save(torch.load(path, weights_only=False)["state_dict"], path)


UNREADABLE = [truncated, empty, image, archive, safetensors, foreign]
INCOMPLETE = [
    (plain_state, "lacks meta, state_dict, message_hub, optimizer, param_schedulers; give"),
    (without("meta"), "lacks meta; give"),
    (without("optimizer"), "lacks optimizer; give"),
    (without("message_hub", "param_schedulers"), "lacks message_hub, param_schedulers; give"),
]


class TestRefused:
    @pytest.mark.parametrize("path", [*RESUMING, *LOADING])
    @pytest.mark.parametrize("damage", UNREADABLE)
    def test_what_is_no_checkpoint(self, work, damage, path):
        damage(work / "run/epoch_1.pth")
        with pytest.raises(UserError, match=r"run/epoch_1.pth") as caught:
            path(work)
        assert "\n" not in str(caught.value)
        assert not (work / "new").exists(), "found before anything is written"

    @pytest.mark.parametrize(("damage", "message"), INCOMPLETE)
    def test_what_cannot_be_resumed(self, work, damage, message):
        damage(work / "run/epoch_1.pth")
        with pytest.raises(UserError, match=message):
            resume_file(work)
        tools_test(work)  # its weights are all there

    def test_a_pointer_to_nothing(self, work):
        (work / "run/last_checkpoint").write_text("gone/epoch_1.pth")
        with pytest.raises(FileNotFoundError, match=r"there is no gone/epoch_1.pth; give one by"):
            resume_newest(work)

    @pytest.mark.parametrize("path", [go_on, load_from, tools_test])
    def test_another_model(self, work, path):
        file = work / "run/epoch_1.pth"
        content = torch.load(file, weights_only=False)
        content["state_dict"] = nn.Sequential(nn.Linear(3, 3)).state_dict()
        torch.save(content, file)
        message = (
            r"epoch_1.pth must hold the weights of .*toy.py's model, but got 2 missing "
            r"\(linear.weight, linear.bias\); (use the config|start from a backbone)"
        )
        with pytest.raises(UserError, match=message):
            path(work)

    def test_a_part_of_the_weights_is_enough_to_start_from(self, work):
        file = work / "run/epoch_1.pth"
        torch.save({"state_dict": {"linear.bias": torch.ones(1)}}, file)
        load_from(work)
        with pytest.raises(UserError, match=r"1 missing \(linear.weight\); use the config that"):
            tools_test(work)

    def test_statistics_and_counters_belong_to_the_weights(self, tmp_path):
        model = nn.ModuleDict({"norm": nn.BatchNorm1d(3), "queue": FeatureQueue(4, 3)})
        content = {"meta": {"epoch": 1, "iter": 1}, "message_hub": {}, "optimizer": {}}
        for missing, resume in (("norm.running_var", False), ("queue._extra_state", True)):
            state = {k: v for k, v in model.state_dict().items() if k != missing}
            torch.save({**content, "state_dict": state}, tmp_path / "w.pth")
            cfg = Config({"load_from": str(tmp_path / "w.pth"), "resume": resume})
            with pytest.raises(
                UserError, match=rf"the config's model, but got 1 missing \({missing}\)"
            ):
                check_fit_of_checkpoint(
                    SimpleNamespace(cfg=cfg, model=model), "train" if resume else "test"
                )

    def test_damaged_weights_of_a_part_of_the_model(self, work):
        (work / "w.pth").write_bytes(b"")
        options = {"model.init_cfg": {"type": "Pretrained", "checkpoint": "w.pth"}}
        with pytest.raises(UserError, match=r"w.pth cannot be read \(EOFError\); copy it again"):
            prepare_train_config("toy.py", work_dir="new", cfg_options=options)
        prepare_test_config("toy.py", "run", cfg_options=options)  # which initialises nothing

    @pytest.mark.parametrize("tool", ["train.py", "test.py"])
    def test_the_tools_end_with_one_line(self, work, monkeypatch, capsys, tool):
        import runpy

        empty(work / "run/epoch_1.pth")
        words = {"train.py": ["--work-dir", "run", "--resume"], "test.py": ["run"]}[tool]
        monkeypatch.setattr(sys, "argv", [tool, "toy.py", *words])
        path = Path(__file__).resolve().parents[1] / "tools" / tool
        with pytest.raises(SystemExit, match=rf"^{tool}: error: .*epoch_1.pth.*\.$"):
            runpy.run_path(str(path), run_name="__main__")
