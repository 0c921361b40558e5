import os
import re
from pathlib import Path

import pytest

from mmssprl.console.paths import check_path
from mmssprl.errors import UserPermissionError

FILE, FOLDER = {"file": "a .npz file"}, {"folder": "the folder of a run"}
BOTH = {**FILE, **FOLDER}


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A folder with a folder, files and a pipe."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for name in ("a.npz", "A.NPZ", "a.txt"):
        (tmp_path / name).touch()
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("a.npz", FILE),
        ("A.NPZ", {**FILE, "suffixes": [".npz"]}),
        ("folder", FOLDER),
        ("folder", {**BOTH, "suffixes": [".npz"]}),
        ("new", {**FOLDER, "writes": True}),
        ("new.NPZ", {**FILE, "writes": True, "suffixes": [".npz"]}),
        ("a.txt", {**FILE, "writes": True}),
        ("a:b", {**FILE, "writes": True}),
    ],
)
def test_a_suitable_path_is_returned(path, asked, place):
    assert check_path(path, "x", **asked) == check_path(place / path, "x", **asked).relative_to(
        place
    )


@pytest.mark.parametrize(
    ("path", "asked", "kind", "message"),
    [
        ("gone", BOTH, FileNotFoundError, "there is no gone; correct the path."),
        ("\0", FILE, FileNotFoundError, "there is no \0; "),
        ("a.npz", FOLDER, ValueError, "a.npz is a file; give its folder."),
        ("a.npz", {**FOLDER, "writes": True}, FileExistsError, "a.npz is a file; give another"),
        ("folder", {**FILE, "writes": True}, FileExistsError, "folder is a folder; give another"),
        ("pipe", BOTH, ValueError, "pipe is neither a file nor a folder; "),
        ("a.txt", {**FILE, "suffixes": [".npz"]}, ValueError, "a.txt does not end in .npz; give"),
        (
            "b.txt",
            {**FILE, "suffixes": [".npz", ".csv", ".png"], "writes": True},
            *(ValueError, "b.txt does not end in .npz, .csv or .png; rename it."),
        ),
        ("https://a.b/c.npz", FILE, ValueError, "https://a.b/c.npz is a URL; download it first."),
        ("s3://a/b", {**FOLDER, "writes": True}, ValueError, "s3://a/b is a URL; give another"),
        (Path("hdfs://a"), BOTH, ValueError, "hdfs://a is a URL; "),
        ("", BOTH, ValueError, "got an empty path; "),
    ],
)
def test_an_unsuitable_path_is_refused_with_the_remedy(path, asked, kind, message, place):
    before = sorted(place.iterdir())
    needed = {"file": "a .npz file", "folder": "the folder of a run"}
    both = ", or ".join(needed[key] for key in ("folder", "file") if key in asked)
    with pytest.raises(kind, match=f"^x must be {re.escape(f'{both}, but {message}')}"):
        check_path(path, "x", **asked)
    assert sorted(place.iterdir()) == before


def test_an_unreadable_file_is_not_called_missing(monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may read everything
    with pytest.raises(UserPermissionError, match=r"but you may not read a\.npz; "):
        check_path("a.npz", "x", **FILE)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        *((word, "write supervised") for word in ("imagenet", "ImageNet-1k", "IMAGENET1K_V2")),
        *((word, "write random") for word in ("none", "None", "scratch")),
    ],
)
def test_words_of_other_tools_are_answered_unless_they_are_files(word, message, place):
    with pytest.raises(FileNotFoundError, match=f"^weights {word} is not known: {message}"):
        check_path(word, "weights", **BOTH)
    (place / word).touch()
    assert check_path(word, "weights", **BOTH).name == word
    with pytest.raises(FileNotFoundError, match="there is no imagenet.pth"):
        check_path("imagenet.pth", "weights", **BOTH)
