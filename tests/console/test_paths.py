import os
from pathlib import Path

import pytest

from mmssprl.console.paths import check_path
from mmssprl.errors import UserPermissionError
from mmssprl.system.outputs import check_folder

FILE = {"file": "a .npz file"}
FOLDER = {"folder": "the folder of a run"}
BOTH = {**FILE, **FOLDER}


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A folder with a folder, files and a pipe."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for name in ("A.NPZ", "a.txt"):
        (tmp_path / name).touch()
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("A.NPZ", {**FILE, "suffixes": [".npz"]}),
        ("folder", {**BOTH, "suffixes": [".npz"]}),
        ("new.NPZ", {**FILE, "writes": True, "suffixes": [".npz"]}),
        ("a:b", {**FILE, "writes": True}),
    ],
)
def test_a_suitable_path_is_returned(path, asked, place):
    assert check_path(path, "x", **asked) == Path(path)
    assert check_path(place / path, "x", **asked) == place / path


@pytest.mark.parametrize(
    ("path", "kind", "message"),
    [
        ("\0", FileNotFoundError, "there is no \0; correct the path."),
        ("pipe", ValueError, "pipe is neither a file nor a folder; "),
        ("", ValueError, "got an empty path; "),
    ],
)
def test_an_unsuitable_path_is_refused_with_the_remedy(path, kind, message):
    with pytest.raises(kind, match=f"^x must be .*, but {message}"):
        check_path(path, "x", **BOTH)


def test_a_path_without_permission_is_not_called_missing(place, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may do everything
    with pytest.raises(UserPermissionError, match=r"but you may not read a\.txt; "):
        check_path("a.txt", "x", **FILE)


def test_a_folder_that_may_not_be_written_to_is_refused(place, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(UserPermissionError, match="run must be .* write to, but .* is not; choose"):
        check_folder(place / "run")
    assert not (place / "run").exists()


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("imagenet.pth", None),
        ("dinov2.pth", None),
        ("IMAGENET1K_V2", "supervised"),
        ("None", "random"),
        ("dinov2_vits14", "timm/NAME"),
    ],
)
def test_words_of_other_tools_are_answered_unless_they_are_files(word, meant, place):
    message = f"^weights {word} is not known: write {meant}" if meant else f"there is no {word}"
    with pytest.raises(FileNotFoundError, match=message):
        check_path(word, "weights", **BOTH)
    (place / word).touch()
    assert check_path(word, "weights", **BOTH).name == word
