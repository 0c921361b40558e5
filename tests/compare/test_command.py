"""A whole comparison on 24 + 12 images, and what later calls in its work dir do."""

import csv
import json

import pytest
from probe_folders import write_coco
from tiny_compare import request, stay_in_process

from mmssprl.compare.start import Comparison


@pytest.fixture(scope="module")
def monkeymodule():
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def call(monkeymodule, tmp_path_factory):
    """Returns a function that runs the command, and gives its lines and the folders it worked in."""
    root = tmp_path_factory.mktemp("compare")
    data = write_coco(root)
    folders = stay_in_process(monkeymodule)

    def call(**changes):
        del folders[:]
        lines = []
        assert Comparison(request(root / "work", data, **changes), lines.append).run() == 0
        return lines, list(folders)

    call.work_dir = root / "work"
    call.data = data
    return call


def test_all(call):
    lines, folders = call()
    print("\n".join(lines)); print(folders)
    lines, folders = call()
    print(folders)
    assert 0
