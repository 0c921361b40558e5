"""docs/embeddings.md: all of its commands and code run, one after the other, in one folder."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
import torch
from helpers.features.probe_folders import write_image
from mmengine.config import Config
from PIL import Image

from mmssprl.cli import build_parser, main
from mmssprl.features import read_embeddings
from mmssprl.weights import load_backbone

PAGE = Path(__file__).parents[3] / "docs" / "embeddings.md"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
CONFIG = """
model = dict(
    type="SSPRL",
    layout=dict(image_px=32, levels=[dict(grid=2, resize_px=64, patch_px=24),
                                     dict(grid=3, resize_px=90, patch_px=16)]),
    backbone=dict(type="ResNet", depth=18),
)
"""


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """A folder as a reader has it, after a pre-training; two of the photographs are the same."""
    folder = tmp_path_factory.mktemp("reader")
    for i in range(8):
        write_image(folder / "photos" / f"{i}.jpg", ("red",) if i % 2 else ("green",), i)
    shutil.copy(folder / "photos" / "3.jpg", folder / "photos" / "copy_of_3.jpg")
    run = folder / "work_dirs" / "search"
    run.mkdir(parents=True)
    (run / "ssprl_resnet18.py").write_text(CONFIG)
    backbone = load_backbone("random", Config.fromfile(run / "ssprl_resnet18.py"))
    torch.save(backbone.state_dict(), run / "ssprl_resnet18_backbone.pth")
    return folder


@pytest.fixture(scope="module")
def printed(reader):
    """What each block has printed, and the variables that its code has left."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(reader)
        variables = []
        for language, text in BLOCKS:
            found: dict = {}
            if language == "python":
                exec(compile(text, str(PAGE), "exec"), found)
            for words in [] if language == "python" else commands(text):
                assert words[:3] == ["python", "-m", "mmssprl"]
                if words[3] == "pretrain":  # whose weights are there
                    build_parser().parse_args(words[3:])
                    continue
                assert main([*words[3:], "--device", "cpu"]) == 0
            variables.append(found)
        return variables


def commands(text):
    lines = text.replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def test_the_page_has_blocks_of_both_kinds():
    languages = [language for language, _ in BLOCKS]
    assert (languages.count("bash"), languages.count("python")) == (5, 6)


def test_its_files_are_written(printed, reader):
    assert len(read_embeddings(reader / "photos.npz")) == 9
    assert len(read_embeddings(reader / "cells.npz")) == 9 * 14
    assert Image.open(reader / "rows.png").width > 100
    assert len((reader / "duplicates.csv").read_text().splitlines()) == 2


def test_its_code_finds_what_is_there(printed):
    def value(name):
        return next(found[name] for found in printed if name in found)

    assert (len(value("names")), value("features").shape) == (9, (9, 512))
    assert len(value("middle")) == 9
    assert value("num_groups") == 1
    assert [Path(name).name for name in value("superfluous")] == ["copy_of_3.jpg"]
    assert len(value("found").names) == 9


def test_the_network_of_torchvision_is_the_same(printed):
    network = next(found["network"] for found in printed if "network" in found)
    model = next(found["model"] for found in printed if "model" in found)
    images = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(network(images), model(images))
