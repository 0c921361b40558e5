"""What is no checkpoint, or not of this run, is refused in one line before anything is written."""

import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from helpers.saving.toy_checkpoint import (
    LOADING,
    RESUMING,
    go_on,
    load_from,
    resume_file,
    tools_test,
)
from mmengine.config import Config
from torch import nn

from mmssprl.engine.launch import prepare_test_config, prepare_train_config
from mmssprl.errors import UserError
from mmssprl.models import FeatureQueue
from mmssprl.saving.checkpoint_checks import check_fit_of_checkpoint


def truncated(path):
    path.write_bytes(path.read_bytes()[:-100])


def archive(path):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a.txt", "a")


def foreign(path):
    torch.save([1, 2, 3], path)


def without(*keys):
    def change(path):
        content = torch.load(path, weights_only=True)
        torch.save({k: v for k, v in content.items() if k not in keys}, path)

    change.__name__ = f"without_{'_'.join(keys)}"
    return change


def plain_state(path):
    torch.save(torch.load(path, weights_only=True)["state_dict"], path)


UNREADABLE = [truncated, archive, foreign]
INCOMPLETE = [
    (plain_state, "lacks meta, state_dict, message_hub, optimizer, param_schedulers;"),
    (without("message_hub", "param_schedulers"), "lacks message_hub, param_schedulers;"),
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

    @pytest.mark.parametrize("path", [go_on, load_from, tools_test])
    def test_another_model(self, work, path):
        file = work / "run/epoch_1.pth"
        content = torch.load(file, weights_only=True)
        content["state_dict"] = nn.Sequential(nn.Linear(3, 3)).state_dict()
        torch.save(content, file)
        with pytest.raises(UserError, match=r"toy.py.* 2 missing .*linear.weight.* --weights"):
            path(work)

    def test_a_part_of_the_weights_is_enough_to_start_from(self, work):
        file = work / "run/epoch_1.pth"
        torch.save({"state_dict": {"linear.bias": torch.ones(1)}}, file)
        load_from(work)
        with pytest.raises(UserError, match=r"1 missing \(linear.weight\)"):
            tools_test(work)

    def test_statistics_and_counters_belong_to_the_weights(self, tmp_path):
        model = nn.ModuleDict({"norm": nn.BatchNorm1d(3), "queue": FeatureQueue(4, 3)})
        content = {"meta": {"epoch": 1, "iter": 1}, "message_hub": {}, "optimizer": {}}
        for missing, resume in (("norm.running_var", False), ("queue._extra_state", True)):
            state = {k: v for k, v in model.state_dict().items() if k != missing}
            torch.save({**content, "state_dict": state}, tmp_path / "w.pth")
            cfg = Config({"load_from": str(tmp_path / "w.pth"), "resume": resume})
            with pytest.raises(UserError, match=rf"1 missing \({missing}\)"):
                check_fit_of_checkpoint(
                    SimpleNamespace(cfg=cfg, model=model), "train" if resume else "test"
                )

    def test_damaged_weights_of_a_part_of_the_model(self, work):
        (work / "w.pth").write_bytes(b"")
        options = {"model.init_cfg": {"type": "Pretrained", "checkpoint": "w.pth"}}
        with pytest.raises(UserError, match="w.pth cannot be read"):
            prepare_train_config("toy.py", work_dir="new", cfg_options=options)
        prepare_test_config("toy.py", "run", cfg_options=options)  # which initialises nothing

    @pytest.mark.parametrize("tool", ["train.py", "test.py"])
    def test_the_tools_end_with_one_line(self, work, monkeypatch, capsys, tool):
        import runpy

        truncated(work / "run/epoch_1.pth")
        words = {"train.py": ["--work-dir", "run", "--resume"], "test.py": ["run"]}[tool]
        monkeypatch.setattr(sys, "argv", [tool, "toy.py", *words])
        path = Path(__file__).resolve().parents[2] / "tools" / tool
        with pytest.raises(SystemExit, match=rf"^{tool}: error: .*epoch_1.pth.*\.$"):
            runpy.run_path(str(path), run_name="__main__")
