"""What the operating system refuses is told in one line: the path, and what to do."""

import errno
import os
import stat
import tempfile

import pytest
import torch
from helpers.features.probe_folders import write_config
from helpers.system.full_disk import fill_disk
from mmengine.config import Config
from safetensors.torch import load_file

from mmssprl.cli import main
from mmssprl.errors import message_for_user
from mmssprl.system.outputs import check_folder, prepare_output, whole_file, write_whole
from mmssprl.weights import load_backbone


def raised(call, *args):
    with pytest.raises(OSError) as info:  # noqa: PT011
        call(*args)
    return info.value


class TestFullDisk:
    @pytest.fixture(autouse=True)
    def full(self, monkeypatch):
        fill_disk(monkeypatch)

    def test_text(self, tmp_path):
        error = raised(write_whole, tmp_path / "a.txt", "text")
        assert message_for_user(error).startswith(f"{tmp_path / 'a.txt'}: the disk is full; ")
        assert list(tmp_path.iterdir()) == []

    def test_what_torch_makes_of_it(self, tmp_path):
        def save():
            with whole_file(tmp_path / "a.pt", "wb") as file:
                torch.save({"a": torch.zeros(30000)}, file)

        assert message_for_user(raised(save)).startswith(f"{tmp_path / 'a.pt'}: the disk is full")


@pytest.mark.parametrize("below", ["file/out.txt", "file/b/out.txt"])
def test_a_file_where_a_folder_is_needed(below, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError, match="/file is a file"):
        prepare_output(tmp_path / below)
    message = message_for_user(raised((tmp_path / below).parent.mkdir))
    assert message.startswith(f"{tmp_path / 'file'}: ")
    assert "it is a file" in message


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EACCES, "permission denied"),
        (errno.EROFS, "the disk is read-only"),
        (errno.ENOENT, "there is no such file or folder"),
        (errno.EDQUOT, "your quota on this disk is used up"),
    ],
)
def test_every_error_has_path_and_remedy(number, words):
    message = message_for_user(OSError(number, os.strerror(number), "some/where"))
    assert message.startswith(f"some/where: {words}; ")
    assert message_for_user(OSError(number, os.strerror(number))).startswith(words)


def test_a_folder_that_may_not_be_written_to_is_refused_before_the_work(tmp_path, monkeypatch):
    # Root may write everywhere, so the answer of the system is given by hand.
    def refuse(dir):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), dir / "tmpx")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    with pytest.raises(PermissionError, match=r"may write to, but .* is not; choose"):
        prepare_output(tmp_path / "a.txt")


def test_where_root_can_make_no_file_the_path_is_named_that_was_given(tmp_path):
    with pytest.raises(PermissionError, match=r"^/proc must be a folder that you may write to"):
        prepare_output("/proc/a.onnx")
    with pytest.raises(PermissionError, match=r"^/proc/run must be a folder .*, but /proc is not"):
        check_folder("/proc/run")
    check_folder(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_files_have_the_mode_that_the_user_wants(mask, mode, tmp_path):
    before = os.umask(mask)
    try:
        write_whole(tmp_path / "a.txt", "text")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == mode


def test_exported_safetensors_can_be_read_by_others(tmp_path):
    config = write_config(tmp_path)
    state = load_backbone("random", Config.fromfile(config)).state_dict()
    torch.save(state, tmp_path / "backbone.pth")
    out = tmp_path / "out.safetensors"
    command = ["export", str(tmp_path / "backbone.pth"), "--to", "safetensors", "--out", str(out)]
    assert main(command) == 0
    assert stat.S_IMODE(out.stat().st_mode) & 0o044
    assert load_file(out).keys() == state.keys()
