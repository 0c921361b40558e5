import argparse
import collections
import os
import pickle

import numpy as np
import pytest
import safetensors.torch
import torch
from helpers.weights import published_checkpoints as published
from helpers.weights.traps import Call
from mmengine.logging import HistoryBuffer
from torch import nn

from mmssprl.weights.checkpoint_file import load_pickle, read_checkpoint, read_state

FORMS = ("archive", "old")


def save(content, path, form="archive"):
    torch.save(content, path, _use_new_zipfile_serialization=form == "archive")
    return path


class TestReadState:
    def test_joins_the_names_of_nested_arrays(self, tmp_path):
        state = {"a": torch.ones(1), "b": np.array([1, 2], ">f4"), "c": "text", "d": np.array("x")}
        content = {"epoch": 3, "model": state, "best": torch.tensor(0.5), "x": {1: torch.ones(1)}}
        read = read_state(save(content, tmp_path / "w.pkl"))  # an archive, whatever it is called
        found = {key: value.tolist() for key, value in read.items()}
        assert found == {"model.a": [1], "model.b": [1, 2], "best": 0.5}

    @pytest.mark.parametrize("content", [[1, 2], {"model": {"a": 1}}, {"a": np.array(["text"])}])
    def test_files_without_tensors(self, content, tmp_path):
        file = published.save(content, tmp_path / "w.pkl")
        with pytest.raises(ValueError, match=f"w.pkl holds a {type(content).__name__}"):
            read_state(file)


class TestCheckpoints:
    @pytest.mark.parametrize("mmap", [False, True])
    @pytest.mark.parametrize("form", FORMS)
    def test_files_of_several_projects(self, tmp_path, form, mmap):
        """With the histories of mmengine, and the options of DINO and MAE."""
        buffer = HistoryBuffer([1.0, 2.0], [1, 3])
        content = {
            "state_dict": collections.OrderedDict(a=torch.arange(3), b=nn.Parameter(torch.ones(2))),
            "numbers": [np.float64(0.1), np.int64(7), np.arange(3), np.array(["x"])],
            "message_hub": {"log_scalars": {"train/loss": buffer}},
            "args": argparse.Namespace(arch="vit_small"),
        }
        read = read_checkpoint(save(content, tmp_path / "w.pth", form), mmap=mmap)
        assert [value.tolist() for value in read["state_dict"].values()] == [[0, 1, 2], [1, 1]]
        for mine, theirs in zip(read["numbers"], content["numbers"], strict=True):
            assert type(mine) is type(theirs)
            assert np.array_equal(mine, theirs)
        history = read["message_hub"]["log_scalars"]["train/loss"]
        assert history.mean() == history.statistics("mean") == buffer.mean()
        assert read["args"] == content["args"]

    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize(
        ("call", "name"),
        [
            (Call(os.mkdir, "sprung"), "posix.mkdir"),
            (Call(getattr, HistoryBuffer, "update"), "builtins.getattr"),
        ],
    )
    def test_no_code_of_a_file_runs(self, tmp_path, form, call, name, monkeypatch):
        monkeypatch.chdir(tmp_path)
        path = save({"trap": call}, tmp_path / "w.pth", form)
        with pytest.raises(ValueError, match=rf"w\.pth cannot be read \(it asks for {name}"):
            read_checkpoint(path)
        assert [each.name for each in tmp_path.iterdir()] == ["w.pth"]


class TestPickles:
    """Files of detectron2 and of annotations."""

    @pytest.mark.parametrize("kind", ["<f4", ">f4", "<U3"])
    def test_arrays_of_every_kind(self, kind, tmp_path):
        array = np.array([[1, 0, 2], [0, 1, 1]]).astype(kind)
        for protocol in (2, 4):
            content = {"whole": array, "part": array[:, ::2], "number": array[0, 0], "n": [1, 2.5]}
            (tmp_path / "w.pkl").write_bytes(pickle.dumps(content, protocol))
            read = read_checkpoint(tmp_path / "w.pkl")
            for name in ("whole", "part", "number"):
                assert np.array_equal(read[name], content[name])
            assert read["n"] == [1, 2.5]

    @pytest.mark.parametrize("name", ["builtins.eval", "numpy.load", "collections.Counter"])
    def test_refuses_every_other_name(self, name, tmp_path):
        module, function = name.split(".")
        (tmp_path / "w.pkl").write_bytes(f"c{module}\n{function}\n(V1\ntR.".encode())
        with pytest.raises(ValueError, match=f"it asks for {name}, and no code of a file is run"):
            read_checkpoint(tmp_path / "w.pkl")

    def test_a_file_cannot_change_what_it_names(self, tmp_path):
        """Protocol 2 sets attributes of any object by a pair of states."""
        for name in (b"collections\nOrderedDict", b"numpy\nndarray", b"numpy\ndtype"):
            data = b"\x80\x02c" + name + b"\nN}X\x04\x00\x00\x00markK\x00s\x86b."
            (tmp_path / "w.pkl").write_bytes(data)
            with (tmp_path / "w.pkl").open("rb") as file, pytest.raises((TypeError, ValueError)):
                load_pickle(file)
        assert not hasattr(collections.OrderedDict, "mark")


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 44\n"
OTHERS = {
    POINTER: r"it is a Git LFS pointer\); run `git lfs pull` in its folder, or download",
    b"\n<!DOCTYPE html><html>": r"it is a web page\); download the file itself",
    b"\xef\xbb\xbf<?xml version='1.0'?><Error>": r"it is a web page\); download the file itself",
    b'{"metadata": {}, "weight_map": {}}': r"it is JSON\); give the file with the tensors",
    b"Entry not found": r"it is text, 'Entry not found'\); download the file itself",
    b"\x89HDF\r\n\x1a\n\0\0": r"it is HDF5, as Keras writes it\); give the weights of a PyTorch",
    b"PK\3\4" + bytes(26) + b"Transformer/kernel.npy": r"it is NumPy's \.npz\); give the \.saf",
    b"\x08\x08\x12\x07pytorch": r"it looks like ONNX\); give the \.safetensors or \.pth",
    b"GGUF\x03\0\0\0": r"it is GGUF\); give the \.safetensors or \.pth",
    b"\x1f\x8b\x08\0\0": r"it is packed by gzip\); unpack it",
    b" \n": r"it is empty\); copy or download it again",
    b"\x80\x02\xff": r"\w+\); copy it again, or save its state dict alone",
}


@pytest.mark.parametrize("suffix", [".pth", ".safetensors", ".pkl"])
@pytest.mark.parametrize("content", OTHERS, ids=lambda content: ascii(content[:12]))
def test_a_file_of_another_kind_is_called_so(content, suffix, tmp_path):
    path = tmp_path / f"w{suffix}"
    path.write_bytes(content)
    with pytest.raises(
        ValueError, match=rf"w\{suffix} cannot be read \({OTHERS[content]}"
    ) as caught:
        read_checkpoint(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("suffix", [".pth", ".bin", ".safetensors"])
def test_the_content_says_the_format_whatever_the_suffix(suffix, tmp_path):
    state = {"conv.weight": torch.arange(6.0).view(2, 3)}
    file = tmp_path / f"w{suffix}"
    file.write_bytes(safetensors.torch.save(state))
    assert torch.equal(read_state(file)["conv.weight"], state["conv.weight"])
    save(state, file)
    assert torch.equal(read_state(file)["conv.weight"], state["conv.weight"])


def test_a_script_is_told_how_to_give_its_weights(tmp_path, recwarn):
    torch.jit.script(nn.Conv2d(3, 4, 1)).save(tmp_path / "w.pt")
    recwarn.clear()
    with pytest.raises(ValueError, match=r"w\.pt is a TorchScript archive.* by torch\.jit\.load"):
        read_state(tmp_path / "w.pt")
    assert not recwarn.list  # torch warns of such a file when it reads it
