import json
import shutil
from pathlib import Path

import pytest
import torch
from helpers.engine.toy_run import write_config
from helpers.saving.stopped_runs import assert_equal
from helpers.saving.toy_checkpoint import SCHEDULE, truncated
from mmengine.config import Config

from mmssprl.engine.launch import launch, prepare_train_config
from mmssprl.errors import UserError
from mmssprl.saving.run_files import newest_intact, require_newest

pytestmark = pytest.mark.fault


@pytest.fixture
def folder(toy_training, tmp_path, monkeypatch):
    """A run of two epochs in the current folder; its pointer names the second checkpoint."""
    monkeypatch.chdir(tmp_path)
    write_config(tmp_path, SCHEDULE)
    return Path(shutil.copytree(toy_training, tmp_path / "run"))


POINTERS = [None, b"", b"/somewhere/run/epoch_2.p", b"epoch_7.pth", b".", b"best.pth"]
POINTERS += [b"\xff\x00\xfe", b"/somewhere/else/epoch_2.pth\n"]


@pytest.mark.parametrize("content", POINTERS)
def test_any_content_of_the_pointer(folder, warnings, content):
    torch.save({"state_dict": {}}, folder / "best.pth")
    (folder / "last_checkpoint").unlink()
    if content is not None:
        (folder / "last_checkpoint").write_bytes(content)
    assert newest_intact(folder) == folder / "epoch_2.pth"
    is_good = content is None or content.endswith(b"epoch_2.pth\n")
    assert len(warnings) == (0 if is_good else 1)
    assert all(line.startswith("skipping ") for line in warnings)


def test_without_a_pointer_the_most_steps_count(folder):
    """Neither the clock nor the name."""
    (folder / "last_checkpoint").unlink()
    (folder / "epoch_2.pth").rename(folder / "a.pth")
    (folder / "epoch_1.pth").touch()  # later, as after a copy
    assert newest_intact(folder) == folder / "a.pth"


def hole(path):
    """Damage a file as a power failure may do."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 64] = bytes(64)
    path.write_bytes(data)


def folder_in_its_place(path):
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("damage", [truncated, hole, folder_in_its_place, Path.unlink])
@pytest.mark.parametrize("has_pointer", [True, False])
def test_any_damage_of_the_newest_file(folder, warnings, damage, has_pointer):
    if not has_pointer:
        (folder / "last_checkpoint").unlink()
    damage(folder / "epoch_2.pth")
    assert newest_intact(folder) == folder / "epoch_1.pth"
    assert len(warnings) == (has_pointer or damage is not Path.unlink)
    assert all("skipping " in line and "epoch_2.pth: " in line for line in warnings)


def test_damaged_checkpoints_alone_are_never_a_new_run(folder):
    for name in ("epoch_1.pth", "epoch_2.pth"):
        truncated(folder / name)
    message = r"run/epoch_2.pth: .*run/epoch_1.pth: "
    with pytest.raises(UserError, match=message):
        newest_intact(folder)
    with pytest.raises(UserError, match=message):
        prepare_train_config("toy.py", work_dir="run", resume="auto")


def test_a_pointer_to_a_lost_checkpoint_is_never_a_new_run(folder):
    for path in folder.glob("*.pth"):
        path.unlink()
    with pytest.raises(UserError, match="epoch_2.pth"):
        newest_intact(folder)


def test_a_run_that_stopped_before_its_first_save_has_none(folder):
    for path in (*folder.glob("*.pth"), folder / "last_checkpoint"):
        path.unlink()
    assert newest_intact(folder) is None
    with pytest.raises(UserError, match="train first"):
        require_newest(folder)


def test_a_resumed_run_uses_what_it_found(folder, monkeypatch):
    expected = torch.load("run/epoch_2.pth", weights_only=True)["state_dict"]
    hole(folder / "epoch_2.pth")
    asked = []

    def ask(folder):
        asked.append(newest_intact(folder))
        return asked[-1]

    monkeypatch.setattr("mmssprl.engine.launch.newest_intact", ask)
    launch(prepare_train_config("toy.py", work_dir="run", resume="auto"), "train")
    assert asked == [Path("run/epoch_1.pth")]
    record = json.loads((folder / "run.json").read_text())
    assert record["starts"][-1]["resumed_from"] == "run/epoch_1.pth"
    dumped = Config.fromfile("run/toy.py")
    assert (dumped.resume, dumped.load_from) == (True, None)  # the next start looks again
    state = torch.load("run/epoch_2.pth", weights_only=True)["state_dict"]
    assert_equal(state, expected, "weights")
