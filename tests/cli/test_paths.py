"""Every path of every command, wrong in every way: one line, and nothing is written."""

import contextlib
import io
import os
import re
from types import SimpleNamespace

import pytest
from cli.test_names import ACTIONS, THINGS
from cli.test_names import OTHERS as OTHER_THINGS
from helpers.datasets.labelled_folders import write_class_folders, write_weights
from helpers.datasets.photo_folders import write_photos
from helpers.pretraining.paces import stub_pace

from mmssprl.cli import main

PRETRAIN = "pretrain {photos} --image-px 32 --epochs 1 --backbone timm/test_resnet "
FINETUNE = "finetune {weights} {data} --task classify --epochs 1 "
TRAIN, TEST = "configs/ssprl/ssprl_resnet18_scenes.py", "configs/benchmarks/classification/"
TEST += "linear_resnet18_scenes.py"
TABLES, PICTURES = ".json .csv", ".png .pdf .svg .jpg .jpeg .webp .tif .tiff .eps"
INPUTS = {
    "pretrain IMAGES": ("images", "pretrain {x} --dry-run"),
    "pretrain --weights": ("both", PRETRAIN + "--dry-run --weights {x}"),
    "pretrain --teacher": ("both", PRETRAIN + "--dry-run --teacher {x}"),
    "pretrain --probe": ("data", PRETRAIN + "--dry-run --probe {x}"),
    "train CONFIG": ("file", "train {x}"),
    "train --weights": ("both", f"train {TRAIN} --weights {{x}}"),
    "train --resume": ("both", f"train {TRAIN} --resume {{x}}"),
    "test CONFIG": ("file", "test {x} {weights}"),
    "test CHECKPOINT": ("both", f"test {TEST} {{x}}"),
    "report RUN": ("folder", "report {x}"),
    "report --images": ("images", "report {run} --images {x}"),
    "visualize views CONFIG": ("file", "visualize views {x} {photo} o.png"),
    "visualize views IMAGE": ("file", f"visualize views {TRAIN} {{x}} o.png"),
    "visualize features IMAGES": ("both", "visualize features {x} o.png --weights {weights}"),
    "visualize features --weights": ("both", "visualize features {photos} o.png --weights {x}"),
    "visualize figures RUN": ("folder", "visualize figures {x} o.html"),
    "visualize figures --images": ("images", "visualize figures {run} o.html --images {x}"),
    "probe WEIGHTS": ("both", "probe {x} {data}"),
    "probe DATA": ("data", "probe {weights} {x}"),
    "probe --config": ("file", "probe {weights} {data} --config {x}"),
    "neighbors WEIGHTS": ("both", "neighbors {x} {photo} {photos}"),
    "neighbors QUERY": ("both", "neighbors {weights} {x} {photos}"),
    "neighbors IMAGES": ("both", "neighbors {weights} {photo} {x}"),
    "neighbors --embeddings": ("file", "neighbors {weights} {photo} {photos} --embeddings {x}"),
    "neighbors --config": ("file", "neighbors {weights} {photo} {photos} --config {x}"),
    "select EMBEDDINGS": ("file", "select {x}"),
    "select --images": ("both", "select {embeddings} --images {x} --out o.png"),
    "finetune WEIGHTS": ("both", "finetune {x} {data} --task classify"),
    "finetune DATA": ("data", "finetune {weights} {x} --task classify"),
    "predict RUN": ("both", "predict {x} {photos} --out o"),
    "predict IMAGES": ("both", "predict {run} {x} --out o"),
    "embed WEIGHTS": ("both", "embed {x} {photos} o.npz"),
    "embed IMAGES": ("both", "embed {weights} {x} o.npz"),
    "embed --config": ("file", "embed {weights} {photos} o.npz --config {x}"),
    "export WEIGHTS": ("both", "export {x} --to pth"),
    "export --config": ("file", "export {weights} --to pth --out o.pth --config {x}"),
    "convert WEIGHTS": ("both", "convert {x} --out o.pth"),
    "compare --data": ("data", "compare --data {x} --dry-run"),
    "benchmark WEIGHTS": ("both", "benchmark {x} --size scenes --dry-run"),
    "benchmark --data": ("data", "benchmark {weights} --size scenes --data {x} --dry-run"),
}
"""Kind of each argument, and a command that is correct except for it, {x}."""
FILES = {
    "test --out": (".json", f"test {TEST} {{weights}} --out {{x}}"),
    "visualize views OUT": (PICTURES, f"visualize views {TRAIN} {{photo}} {{x}}"),
    "visualize features OUT": (PICTURES, "visualize features {photos} {x} --weights {weights}"),
    "visualize figures OUT": (".html", "visualize figures {run} {x}"),
    "probe --out": (TABLES, "probe {weights} {data} --out {x}"),
    "neighbors --out": (f".csv {PICTURES}", "neighbors {weights} {photo} {photos} --out {x}"),
    "select --out": (f".csv {PICTURES}", "select {embeddings} --out {x}"),
    "embed OUT": (".npz", "embed {weights} {photos} {x}"),
    "export --out": (".safetensors", "export {weights} --to safetensors --out {x}"),
    "convert --out": (".pth", "convert {weights} --out {x}"),
}
"""Suffixes of each output, and a command."""
FOLDERS = {
    "pretrain --work-dir": PRETRAIN + "--work-dir {x}",
    "train --work-dir": f"train {TRAIN} --work-dir {{x}}",
    "test --work-dir": f"test {TEST} {{weights}} --work-dir {{x}}",
    "demo --work-dir": "demo --work-dir {x}",
    "finetune --work-dir": FINETUNE + "--work-dir {x}",
    "predict --out": "predict {run} {photos} --out {x}",
    "compare --work-dir": "compare --data {data} --work-dir {x}",
    "benchmark --work-dir": "benchmark {weights} --size scenes --work-dir {x}",
    "scenes OUT": "scenes {x}",
}
OTHERS = {"convert --config"}
"""Only read for a released checkpoint of SS-PRL."""


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """Correct inputs by name, and a folder of wrong ones."""
    folder = tmp_path_factory.mktemp("given")
    photos = write_photos(folder / "photos", 12)
    found = {
        "weights": write_weights(folder / "weights"),
        "photos": photos,
        "photo": photos / "0.png",
        "data": write_class_folders(folder / "data", per_class=15),
        "run": folder / "run",
        "embeddings": folder / "photos.npz",
    }
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()):
        stub_pace(patch)
        words = f"{PRETRAIN} --batch-size 4 --num-workers 0 --method ssprl --work-dir {{run}}"
        assert main(words.format(**found).split()) == 0
        words = "embed {weights} {photos} {embeddings} --image-px 32"
        assert main(words.format(**found).split()) == 0
    (folder / "text.pth").write_text("hello = \n")
    (folder / "folder").mkdir()
    (folder / "link").symlink_to("gone")
    return SimpleNamespace(folder=folder, **found)


@pytest.fixture
def call(given, tmp_path, monkeypatch):
    """Call a command with a path; check that it writes nothing."""
    monkeypatch.chdir(tmp_path)
    stub_pace(monkeypatch)
    yield lambda line, path: main([word.format(x=path, **vars(given)) for word in line.split()])
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def refuse(given, call, capsys):
    """Call a command with a path that it refuses; return its message."""

    def refuse(line, path):
        before = {each: each.stat().st_mtime_ns for each in given.folder.rglob("*.*")}
        try:
            code = call(line, path)
        except SystemExit as stop:
            code = stop.code
        message = capsys.readouterr().err
        assert (code, message.count("\n")) == (2, 1), message
        assert not (os.path.lexists(path) and f"there is no {path}; " in message)
        assert {each: each.stat().st_mtime_ns for each in given.folder.rglob("*.*")} == before
        return message

    return refuse


def test_every_path_of_every_command_is_tried():
    flags = {"--work-dir", "--out", "--images", "--data", "--weights", "--config", "--probe"}
    found = set()
    for command, action in ACTIONS:
        name = action.option_strings[0] if action.option_strings else action.metavar or action.dest
        if name in flags or action.metavar in THINGS | OTHER_THINGS:
            found.add(f"{command} {name}")
    assert found == {*INPUTS, *FILES, *FOLDERS, *OTHERS}


@pytest.mark.parametrize("name", INPUTS)
def test_what_cannot_be_read_is_refused_in_one_line(name, refuse, given):
    kind, line = INPUTS[name]
    file = given.folder / "text.pth"
    for path in ("gone", "gone.pth", file / "below"):
        assert f"there is no {path}; correct" in refuse(line, path)
    assert "must not be empty" in refuse(line, "")
    assert "is a link to nothing; " in refuse(line, given.folder / "link")
    if kind == "file":
        assert "folder is a folder; give another" in refuse(line, given.folder / "folder")
    elif name != "benchmark --data":  # a line for each file that is missing there
        refuse(line, given.folder / "folder")
    # It takes URLs, and is read after the data are found.
    if name != "test CHECKPOINT":
        for path in ("https://a.b/c.pth", "s3://a/b"):
            assert f"{path} is a URL; download it first" in refuse(line, path)
        message = refuse(line, file)
        assert ("is a file; give its folder" in message) == (kind == "folder")
        assert (".pth does not end in .json, .yaml or .yml" in message) == (kind == "data")


@pytest.mark.parametrize("name", FILES)
def test_no_file_of_another_suffix_is_written(name, refuse, given):
    suffixes, line = FILES[name]
    own = suffixes.split()
    ends = re.sub(r"(.*), ", r"\1 or ", ", ".join(own))
    for suffix in {".xlsx", ".pdf", ".html", ".txt", ""} - {*own}:
        assert f"o{suffix} does not end in {ends}; rename it" in refuse(line, f"o{suffix}")
    for scheme in ("https", "s3"):
        assert "is a URL; " in refuse(line, f"{scheme}:/a.b/c{own[0]}")
    assert "must not be empty" in refuse(line, "")
    assert "folder is a folder; " in refuse(line, given.folder / "folder")
    refuse(line, given.folder / f"text.pth/o{own[0]}")


@pytest.mark.parametrize("name", FOLDERS)
def test_what_cannot_be_a_folder_is_refused(name, refuse, given):
    line = FOLDERS[name]
    file = given.folder / "text.pth"
    assert f"{file} is a file; " in refuse(line, file)
    for path in ("https://a.b/c", "s3://a/b"):
        assert f"{path} is a URL; " in refuse(line, path)
    assert "must not be empty" in refuse(line, "")


@pytest.mark.parametrize(
    "line",
    [
        PRETRAIN + "--dry-run --work-dir {x}",
        "compare --dry-run --work-dir {x}",
        "benchmark {weights} --size scenes --protocols linear --dry-run --work-dir {x}",
    ],
)
def test_a_dry_run_is_not_refused_because_of_the_work_dir(line, given, call, capsys):
    for path in (given.photos, given.folder / "text.pth", given.folder / "text.pth/below"):
        assert call(line, path) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (PRETRAIN + "--work-dir {x} --weights gone", "there is no gone"),
        (PRETRAIN + "--work-dir {x} --image-px 100", "image_px"),
        (FINETUNE + "--work-dir {x} --lr 0", "lr must be"),
        (FINETUNE + "--work-dir {x} --seeds 2 --lr 0", "lr must be"),
        ("compare --work-dir {x} --methods dino", "must be one of random, "),
        ("benchmark gone --work-dir {x}", "there is no gone"),
        ("benchmark random --work-dir {x} --protocols linea", "linea"),
    ],
)
def test_options_are_checked_before_the_work_dir_is_claimed(line, message, given, call, capsys):
    for path in ("new", given.photos):  # the second is not empty
        assert call(line, path) == 2
        assert message in capsys.readouterr().err
