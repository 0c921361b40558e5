import os
import signal
from pathlib import Path

import pytest
import torch

from mmssprl.weights import read_checkpoint
from tools.dev.faults import hostile_files, weights

COMMANDS = [name for name, read in weights.READERS.items() if "_command" in read.__qualname__]
DOORS = ["load_backbone", "train --resume", "newest checkpoint", "load_from", "embeddings"]
SIX_LINES = "a forged kind of numpy in a set (archive)"
pytestmark = pytest.mark.fault


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Every file, by what it asks for."""
    return dict(hostile_files.write_files(tmp_path_factory.mktemp("hostile")))


def faults(folder, tries):
    answers = list(weights.answers(folder, tries))
    assert answers
    return [answer for _, answer in answers if answer.kind not in weights.SURVIVED]


@pytest.mark.parametrize("door", [*DOORS, "annotations"])
def test_every_file_at_every_door(files, tmp_path, door):
    assert faults(tmp_path, [(door, each) for each in files.items()]) == []


def test_the_six_lines_in_every_command(files, tmp_path):
    assert len(COMMANDS) == 8
    tries = [(command, (SIX_LINES, files[SIX_LINES])) for command in COMMANDS]
    assert faults(tmp_path, tries) == []


def test_faults_are_seen(tmp_path, monkeypatch):
    """The process apart tells a signal, memory and an error from a line."""
    spoiled = {
        "signal": lambda path: os.kill(os.getpid(), signal.SIGKILL),
        "memory": lambda path: bytearray(b"1") * 2**29,
        "error": lambda path: [].pop(),
    }
    monkeypatch.setattr(weights, "READERS", spoiled)
    tries = [(name, ("", Path())) for name in spoiled]
    found = [each.kind for each in faults(tmp_path, tries)]
    assert found == ["ends the process by -9", "takes too much memory", "ends in IndexError"]


class TestWhatIsRead:
    """What a file may do, close to what is refused."""

    @pytest.mark.parametrize("old", [False, True])
    def test_tensors_of_every_kind_and_those_that_share(self, tmp_path, old):
        whole = torch.arange(24.0).reshape(4, 6)
        content = {
            "whole": whole,
            "rows": whole[1:3],
            "columns": whole.T[::2],
            "expanded": torch.ones(1, 1).expand(5, 5),
            "last": whole[3:, 5:],
            "empty": whole[:0],
            "number": torch.tensor(3),
            "wide": torch.ones(3, dtype=torch.uint16),
        }
        for name in ("float64", "float16", "bfloat16", "int8", "bool", "complex64"):
            content[name] = torch.tensor([0, 1, 3]).to(getattr(torch, name))
        torch.save(content, tmp_path / "w.pth", _use_new_zipfile_serialization=not old)
        for mmap in (False, True):
            read = read_checkpoint(tmp_path / "w.pth", mmap=mmap)
            for name, value in content.items():
                assert torch.equal(read[name], value)
                assert read[name].stride() == value.stride()
            read["whole"][1, 0] = 100
            assert read["rows"][0, 0] == read["columns"][0, 1] == 100, "as one storage"

    @pytest.mark.parametrize(("view", "expected"), [(("1", 1, 2), [1, 2]), (None, [0, 1])])
    def test_views_of_storages(self, tmp_path, view, expected):
        """As torch < 0.4 wrote them."""
        content = {"a": hostile_files.tensor(hostile_files.Storage(4, view=view), (2,), (1,))}
        hostile_files.write_old(tmp_path / "w.pth", content)
        for read in (read_checkpoint, torch.load):
            assert read(tmp_path / "w.pth")["a"].tolist() == expected
