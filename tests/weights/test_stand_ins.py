"""Values of unknown classes are left out of a file, its tensors are read, and no code runs."""

import argparse
import collections
import dataclasses
import datetime
import enum
import functools
import pathlib
import pickle
import uuid
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers.weights.traps import SPRUNG, TRAPS, Call
from mmengine.config import Config, ConfigDict

from mmssprl.errors import UserError
from mmssprl.weights.checkpoint_file import read_checkpoint, read_state
from mmssprl.weights.stand_ins import StandIn

FORMS = ("archive", "old")
TENSOR = torch.arange(3.0)


class Attributes(dict):
    """As Lightning's AttributeDict, easydict and yacs: a dict whose keys are attributes."""

    def __init__(self, **values):
        super().__init__(**values)
        self.__dict__ = self


class Names(list):
    pass


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Plain:
    rate: float = 0.1


@dataclasses.dataclass(slots=True)
class Slotted:
    rate: float = 0.1


class Function(Call):
    """Something that a pickle may call, because it looks like a function to the writer."""

    def __call__(self):
        raise NotImplementedError


VALUES = {
    "path": pathlib.PosixPath("/data"),
    "date": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
    "duration": datetime.timedelta(hours=1),
    "id": uuid.UUID(int=5),
    "member of an enum": Colour.RED,
    "enum as key": {Colour.RED: 1},
    "dataclass": Plain(),
    "dataclass with slots": Slotted(),
    "options with a path": argparse.Namespace(out=pathlib.PosixPath("/out")),
    "plain object": SimpleNamespace(a=[1, {"b": Plain()}]),
    "frozen set": frozenset({1}),
    "range": range(3),
    "error": ValueError("text"),
    "partial": functools.partial(sorted, reverse=True),
    "class": int,
    "method": pathlib.PosixPath("/data").exists,
    "function": pathlib.Path.home,
    "random state": np.random.RandomState(0),
    "generator": np.random.default_rng(0),
    "date of numpy": np.datetime64("2026-01-01"),
    "config of mmengine": Config({"a": {"b": 1}}),
    "dict of mmengine": ConfigDict(a=1),
    "queue": collections.deque([1, 2]),
    "list of a class": Names([1, 2]),
}


def save(content, path, form):
    torch.save(content, path, _use_new_zipfile_serialization=form == "archive")
    return path


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", VALUES)
def test_the_tensors_around_a_value_are_read(name, form, tmp_path):
    content = {"before": TENSOR, "value": VALUES[name], "after": {"own": TENSOR + 1}}
    state = read_state(save(content, tmp_path / "w.pth", form))
    assert {key: value.tolist() for key, value in state.items()} == {
        "before": [0, 1, 2],
        "after.own": [1, 2, 3],
    }


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "container",
    [
        collections.defaultdict(list, weight=TENSOR),
        collections.defaultdict(dict, weight=TENSOR),
        Attributes(weight=TENSOR),
        collections.Counter(weight=TENSOR),
    ],
    ids=["defaultdict", "defaultdict of dicts", "attributes", "counter"],
)
def test_tensors_in_dicts_of_other_classes_are_read(container, form, tmp_path, capsys):
    state = read_state(save({"model": container}, tmp_path / "w.pth", form))
    assert {key: value.tolist() for key, value in state.items()} == {"model.weight": [0, 1, 2]}
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("form", FORMS)
def test_a_class_is_a_dict_if_any_of_its_values_is_filled(form, tmp_path):
    """The pickle names the class once, and refers to it after that."""
    content = {"empty": Attributes(), "model": Attributes(weight=TENSOR)}
    state = read_state(save(content, tmp_path / "w.pth", form))
    assert state.keys() == {"model.weight"}


def test_a_line_names_what_is_left_out(tmp_path, capsys):
    values = [VALUES[name] for name in ("path", "date", "id", "duration", "range")]
    path = save({"a": TENSOR, "values": values}, tmp_path / "w.pth", "archive")
    for _ in range(2):
        read_state(path)
    assert capsys.readouterr().out == (
        f"{path}: values of builtins.range, datetime.datetime, datetime.timedelta and 3 more "
        "classes are left out, as no code of a file is run.\n"
    )


def test_a_pickled_network_is_called_so(tmp_path):
    for content in (torch.nn.Linear(2, 2), {"epoch": 1, "model": torch.nn.Linear(2, 2)}):
        path = save(content, tmp_path / "w.pth", "archive")
        match = r"w\.pth holds a pickled torch\.nn\.modules\.linear\.Linear and .*state_dict\(\)"
        with pytest.raises(ValueError, match=match):
            read_state(path)


class TestNoCodeRuns:
    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("name", TRAPS)
    def test_of_a_trap(self, name, form, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        content = {"before": TENSOR, "trap": TRAPS[name](), "after": TENSOR}
        path = save(content, tmp_path / "w.pth", form)
        sprung = tmp_path / SPRUNG
        if sprung.exists():
            sprung.rmdir()
        torch.load(path, weights_only=False)
        sprung.rmdir()  # fails unless the trap works

        assert read_state(path).keys() == {"before", "after"}
        assert not sprung.exists()

    @pytest.mark.parametrize("form", FORMS)
    def test_of_a_method_that_is_called(self, form, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        trap = Call(Function(getattr, pathlib.PosixPath(SPRUNG), "mkdir"))
        path = save({"trap": trap}, tmp_path / "w.pth", form)
        torch.load(path, weights_only=False)
        (tmp_path / SPRUNG).rmdir()  # fails unless the trap works
        with pytest.raises(UserError, match=r"w\.pth cannot be read"):
            read_checkpoint(path)
        assert not (tmp_path / SPRUNG).exists()

    def test_as_nothing_of_a_value_is_kept(self, tmp_path):
        content = {"value": VALUES["plain object"], "state": Slotted(), "path": VALUES["path"]}
        read = read_checkpoint(save(content, tmp_path / "w.pth", "archive"))
        assert all(isinstance(value, StandIn) for value in read.values())
        for value in read.values():
            assert not callable(value)
            with pytest.raises(AttributeError):
                value.number = 1

    @pytest.mark.parametrize(
        "code",
        [
            pytest.param(b"}X\x01\x00\x00\x00aK\x01sb", id="attributes of a class"),
            pytest.param(b"N}X\x01\x00\x00\x00aK\x01s\x86b", id="slots of a class"),
            pytest.param(b"Q", id="persistent id"),
            pytest.param(
                b"X\x07\x00\x00\x00storageh\x00X\x01\x00\x00\x000h\x00K\x01tQ", id="storage"
            ),
        ],
    )
    def test_of_files_that_no_writer_makes(self, code, tmp_path):
        mark = b"(" if code.endswith(b"tQ") else b""
        pickled = b"\x80\x02" + mark + b"cpathlib\nPosixPath\nq\x00" + code + b"."
        path = archive_of(pickled, tmp_path / "w.pth")
        with pytest.raises(UserError, match=r"w\.pth cannot be read \(\w+\); copy it again"):
            read_checkpoint(path)

    def test_of_a_dict_whose_methods_the_file_replaces(self, tmp_path):
        trap = collections.OrderedDict(own=TENSOR)
        trap.itemz = pathlib.PosixPath
        path = save(trap, tmp_path / "w.pth", "old")
        path.write_bytes(path.read_bytes().replace(b"itemz", b"items"))
        assert torch.load(path, weights_only=False).items is pathlib.PosixPath
        assert read_state(path).keys() == {"own"}

    @pytest.mark.parametrize("name", ["os.system", "posix.system", "sys.exit", "nt.system"])
    def test_of_modules_that_torch_blocks(self, name, tmp_path):
        module, function = name.encode().split(b".")
        pickled = b"\x80\x02cpathlib\nPath\nc" + module + b"\n" + function
        pickled += b"\nX\x01\0\0\0a\x85R\x86."  # a pair of the class and of what is called
        with pytest.raises(UserError, match=f"it asks for {name}, and no code of a file is run"):
            read_checkpoint(archive_of(pickled, tmp_path / "w.pth"))


def archive_of(pickled, path):
    """Write a file of torch around a pickle."""
    torch.save({}, path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, pickled if name.endswith("data.pkl") else part)
    assert pickle.PROTO in pickled
    return path
