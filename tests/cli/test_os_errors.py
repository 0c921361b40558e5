import os

import pytest
import torch
from helpers.system.full_disk import fill_disk

from mmssprl.console.messages import message_for_user
from mmssprl.system.outputs import check_folder, prepare_output, whole_file, write_whole


def raised(call, *args):
    with pytest.raises(OSError) as info:  # noqa: PT011
        call(*args)
    return info.value


def test_a_full_disk_is_reported_also_by_torch(tmp_path, monkeypatch):
    fill_disk(monkeypatch)
    path = tmp_path / "a.pt"

    def save():
        with whole_file(path, "wb") as file:
            torch.save({"a": torch.zeros(30000)}, file)

    for write in (save, lambda: write_whole(path, "text")):
        assert message_for_user(raised(write)).endswith(f"No space left on device: '{path}'")
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("below", ["file/out.txt", "file/b/out.txt"])
def test_a_file_where_a_folder_is_needed(below, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError, match="/file is a file"):
        prepare_output(tmp_path / below)


def test_a_folder_that_may_not_be_written_to_is_refused_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everywhere
    with pytest.raises(PermissionError, match=r"run must be .* write to, but .* is not; choose"):
        check_folder(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []
