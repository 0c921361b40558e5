"""Every trap is set in each form that a file can have, and none goes off."""

import collections
import io
import os
import pickle

import numpy as np
import pytest
import torch
from mmengine.logging import HistoryBuffer
from torch import nn

from mmssprl.weights.safe_pickle import load_pickle
from mmssprl.weights.torch_file import load_torch


class Calling:
    """Asks for a call where it is unpickled."""

    def __init__(self, function, *args):
        self.call = function, args

    def __reduce__(self):
        return self.call


class Holder:
    pass


class Array(np.ndarray):
    pass


def save(content, path, form):
    torch.save(content, path, _use_new_zipfile_serialization=form == "archive")
    return path


@pytest.fixture(params=["archive", "old"])
def form(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["strict", "tolerant"])
def tolerant(request):
    return request.param


class TestLoadTorch:
    def test_rebuilds_what_trainings_write(self, tmp_path, form, tolerant):
        buffer = HistoryBuffer([1.0, 2.0], [1, 3])
        content = {
            "state_dict": collections.OrderedDict(
                a=torch.arange(6.0)[::2], b=nn.Parameter(torch.ones(2))
            ),
            "half": torch.ones(2, dtype=torch.bfloat16),
            "numbers": [np.float64(0.1), np.int64(7), np.arange(3), np.array(["x"])],
            "plain": [
                torch.Size([1, 2]),
                torch.float16,
                collections.Counter([3, 3]),
                {1},
                1j,
                b"x",
            ],
            "buffer": buffer,
        }
        read = load_torch(save(content, tmp_path / "w.pth", form), tolerant=tolerant)
        assert read["state_dict"]["a"].tolist() == [0, 2, 4]
        assert read["state_dict"]["b"].tolist() == [1, 1]
        assert read["half"].dtype == torch.bfloat16
        for mine, theirs in zip(read["numbers"], content["numbers"], strict=True):
            assert type(mine) is type(theirs)
            assert np.array_equal(mine, theirs)
        assert read["plain"] == content["plain"]
        assert type(read["buffer"]) is HistoryBuffer
        assert read["buffer"].mean() == buffer.mean()

    @pytest.mark.parametrize(
        "content",
        [
            Holder(),
            collections.deque([1, 2]),
            collections.defaultdict(int, a=1),
            np.zeros(2).view(Array),
            Calling(getattr, HistoryBuffer, "update"),
        ],
        ids=["object", "list", "dict", "array", "method"],
    )
    def test_an_unknown_object_is_refused_or_left_empty(self, tmp_path, form, content):
        path = save({"unknown": content, "known": torch.ones(1)}, tmp_path / "w.pth", form)
        with pytest.raises(pickle.UnpicklingError, match="it asks for"):
            load_torch(path)
        read = load_torch(path, tolerant=True)
        assert vars(read["unknown"]) == {}
        assert read["known"].tolist() == [1]

    def test_no_form_runs_code(self, tmp_path, form, tolerant):
        folder = tmp_path / "sprung"
        path = save(
            {"trap": Calling(os.mkdir, str(folder)), "a": torch.ones(1)},
            tmp_path / "w.pth",
            form,
        )
        if tolerant:
            load_torch(path, tolerant=True)
        else:
            with pytest.raises(pickle.UnpicklingError, match=r"posix.mkdir"):
                load_torch(path)
        assert not folder.exists()
        torch.load(path, weights_only=False)
        assert folder.exists(), "so it was armed"

    def test_torchscript_never_reaches_torch(self, tmp_path, tolerant):
        torch.jit.script(nn.Linear(1, 1)).save(str(tmp_path / "w.pth"))
        with pytest.raises(pickle.UnpicklingError, match="TorchScript"):
            load_torch(tmp_path / "w.pth", tolerant=tolerant)


class TestLoadPickle:
    def test_follows_as_python_does(self):
        shared = (0.9, 0.999)
        content = {
            "numbers": [1, -1, 2**16, 2**40, -(2**70), 2.5, True, None, 1j],
            "text": ["a", "é" * 300, b"\x00\xff" * 200, ""],
            "groups": [{"betas": shared}, {"betas": shared}],
            "sets": [set(), {1, "a", ((1, 2), "b")}, frozenset([3])],
            "ordered": collections.OrderedDict(b=1, a=2),
        }
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            data = pickle.dumps(content, protocol)
            assert load_pickle(io.BytesIO(data)) == content
            # What an optimizer of the next version calls a group is the same object still.
            groups = load_pickle(io.BytesIO(data))["groups"]
            assert groups[0]["betas"] is groups[1]["betas"]

    @pytest.mark.parametrize("kind", ["<f4", ">f4", ">f8", "<i2", ">u4", "?", "<c8", "<U3", "|S3"])
    def test_arrays_of_every_kind(self, kind):
        array = np.array([[1, 0, 2], [0, 1, 1]]).astype(kind)
        for each in (array, array.T, array[:, ::2], array[:0], array[0, 0]):
            for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
                read = load_pickle(io.BytesIO(pickle.dumps(each, protocol)))
                assert type(read) is type(each)
                assert read.shape == each.shape
                assert np.array_equal(read, each)
                assert read.dtype == each.dtype.newbyteorder("=") or protocol == 5

    def test_a_file_cannot_change_what_it_names(self):
        """Protocol 2 sets attributes of any object by a pair of states."""
        # The class, the states (None, {"mark": 0}), and the order to set them.
        data = "\x80\x02ccollections\nCounter\nN}X\x04\x00\x00\x00markK\x00s\x86b.".encode("latin1")
        with pytest.raises(TypeError):
            load_pickle(io.BytesIO(data))
        assert not hasattr(collections.Counter, "mark")
        pickle.loads(data)
        assert collections.Counter.mark == 0, "Python's own unpickler does"
        del collections.Counter.mark
