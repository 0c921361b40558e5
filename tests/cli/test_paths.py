"""Every path of every command, wrong in every way: one line, and nothing is written."""

import contextlib
import io
import os
import re
from collections import Counter
from types import SimpleNamespace

import pytest
from cli.test_names import ACTIONS, OTHERS, THINGS
from helpers.datasets.labelled_folders import write_class_folders, write_weights
from helpers.datasets.photo_folders import write_photos
from helpers.engine.logs import write_log
from helpers.pretraining.paces import stub_pace

from mmssprl.cli import main
from mmssprl.runs import start

TRAIN = "configs/ssprl/ssprl_resnet18_scenes.py"
TEST = "configs/benchmarks/classification/linear_resnet18_scenes.py"
LINES = {
    "pretrain": "{photos} --image-px 32 --epochs 1 --backbone timm/test_resnet",
    "train": TRAIN,
    "test": f"{TEST} {{weights}}",
    "report": "{run}",
    "visualize views": f"{TRAIN} {{photo}} o.png",
    "visualize features": "{photos} o.png --weights {weights}",
    "visualize figures": "{run} o.html",
    "probe": "{weights} {data}",
    "neighbors": "{weights} {photo} {photos}",
    "select": "{embeddings} --out o.png",
    "finetune": "{weights} {data} --task classify --epochs 1",
    "predict": "{run} {photos} --out o",
    "embed": "{weights} {photos} o.npz",
    "export": "{weights} --to safetensors --out o.safetensors",
    "convert": "{weights} --out o.pth",
    "compare": "--data {data}",
    "benchmark": "{weights} --size scenes --protocols linear",
    "scenes": "o",
}
"""Correct arguments of each command that takes a path, those without a flag first."""
KINDS = {"CONFIG": "file", "--config": "file", "IMAGE": "file"}
KINDS |= {"EMBEDDINGS": "file", "--embeddings": "file", "RUN": "folder", "predict RUN": "both"}
KINDS |= dict.fromkeys(("DATA", "--data", "--probe"), "data")
"""What an input must be, by the end of its name; otherwise it may be a file or a folder."""
TABLES = ".json .csv"
PICTURES = ".png .pdf .svg .jpg .jpeg .webp .tif .tiff .eps"
FILES = {
    "test --out": ".json",
    "visualize views OUT": PICTURES,
    "visualize features OUT": PICTURES,
    "visualize figures OUT": ".html",
    "probe --out": TABLES,
    "neighbors --out": f".csv {PICTURES}",
    "select --out": f".csv {PICTURES}",
    "embed OUT": ".npz",
    "export --out": ".safetensors",
    "convert --out": ".pth",
}
"""Suffixes of the outputs that are files; the others are folders."""


def find_paths():
    """Yield the name of each path of each command, and a line with {x} in its place."""
    flags = {"--work-dir", "--out", "--images", "--data", "--weights", "--config", "--probe"}
    places = Counter()
    for command, action in ACTIONS:
        words = LINES.get(command, "").split()
        name = action.metavar or action.dest
        is_path = name in THINGS | OTHERS or not flags.isdisjoint(action.option_strings)
        if action.option_strings:
            [name] = action.option_strings
            words += [name, "{x}"]
        elif words:
            words[places[command]] = "{x}"
            places[command] += 1
        if is_path:
            yield f"{command} {name}", " ".join([command, *words])


PATHS = dict(find_paths())
DRY = ("pretrain", "compare", "benchmark")
FOLDERS = {name for name in PATHS if name.endswith((" --work-dir", " --out", " OUT"))} - {*FILES}
# The config of `convert` is read only for a released checkpoint of SS-PRL.
INPUTS = [name for name in PATHS if name not in {*FILES, *FOLDERS, "convert --config"}]


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
        patch.setattr(start, "train_config", lambda *args, **options: None)
        for line in (
            f"pretrain {LINES['pretrain']} --work-dir {{run}}",
            "embed {weights} {photos} {embeddings} --image-px 32",
        ):
            assert main(line.format(**found).split()) == 0
    logged = {"step": 1, "lr": 0.1, "loss": 1.0, "progress": 1.0, "epochs_done": 1.0}
    write_log(found["run"], [logged])
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


@pytest.mark.parametrize("name", INPUTS)
def test_what_cannot_be_read_is_refused_in_one_line(name, refuse, given):
    kind = KINDS.get(name) or KINDS.get(name.split()[-1])
    line = PATHS[name] + " --dry-run" * name.startswith(DRY)
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
    line = PATHS[name]
    own = FILES[name].split()
    ends = re.sub(r"(.*), ", r"\1 or ", ", ".join(own))
    for suffix in {".xlsx", ".pdf", ".html", ".txt", ""} - {*own}:
        assert f"o{suffix} does not end in {ends}; rename it" in refuse(line, f"o{suffix}")
    for scheme in ("https", "s3"):
        assert "is a URL; " in refuse(line, f"{scheme}:/a.b/c{own[0]}")
    assert "must not be empty" in refuse(line, "")
    assert "folder is a folder; " in refuse(line, given.folder / "folder")
    refuse(line, given.folder / f"text.pth/o{own[0]}")


@pytest.mark.parametrize("name", sorted(FOLDERS))
def test_what_cannot_be_a_folder_is_refused(name, refuse, given):
    line = PATHS[name]
    file = given.folder / "text.pth"
    assert f"{file} is a file; " in refuse(line, file)
    for path in ("https://a.b/c", "s3://a/b"):
        assert f"{path} is a URL; " in refuse(line, path)
    assert "must not be empty" in refuse(line, "")


@pytest.mark.parametrize("command", DRY)
def test_a_dry_run_is_not_refused_because_of_the_work_dir(command, given, call, capsys):
    words = "" if command == "compare" else LINES[command]  # of the generated scenes
    file = given.folder / "text.pth"
    for path in ("new", given.photos, file, file / "below"):
        assert call(f"{command} {words} --dry-run --work-dir {{x}}", path) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("command", "options", "message"),
    [
        ("pretrain", "--weights gone", "there is no gone"),
        ("pretrain", "--image-px 100", "image_px"),
        ("finetune", "--lr 0", "lr must be"),
        ("finetune", "--seeds 2 --lr 0", "lr must be"),
        ("compare", "--methods dino", "must be one of random, "),
        ("benchmark", "--protocols linea", "linea"),
    ],
)
def test_options_are_checked_before_the_work_dir_is_claimed(
    command, options, message, given, call, capsys
):
    for path in ("new", given.photos):  # the second is not empty
        assert call(f"{PATHS[f'{command} --work-dir']} {options}", path) == 2
        assert message in capsys.readouterr().err
