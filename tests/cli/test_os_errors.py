import errno
import os

import pytest
import torch
from helpers.system.full_disk import fill_disk

from mmssprl.console.messages import message_for_user
from mmssprl.system.outputs import whole_file, write_whole


def test_a_full_disk_is_reported_also_by_torch(tmp_path, monkeypatch):
    fill_disk(monkeypatch)
    path = tmp_path / "a.pt"

    def save():
        with whole_file(path, "wb") as file:
            torch.save({"a": torch.zeros(30000)}, file)

    for write in (save, lambda: write_whole(path, "text")):
        with pytest.raises(OSError) as caught:  # noqa: PT011
            write()
        assert message_for_user(caught.value).startswith(f"{path}: the disk is full; ")
        assert list(tmp_path.iterdir()) == []


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
