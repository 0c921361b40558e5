import collections
import io
import os
import pickle

import numpy as np
import pytest
import torch
from helpers.weights import published_checkpoints as published
from mmengine.logging import HistoryBuffer
from torch import nn

from mmssprl.weights.checkpoint_file import read_checkpoint, read_state
from mmssprl.weights.safe_pickle import load_pickle
from mmssprl.weights.torch_file import load_torch
from tools.dev.faults.hostile_files import Call

STATE = {"a.weight": torch.arange(6.0).reshape(2, 3), "a.num_batches_tracked": torch.tensor(7)}


class TestReadState:
    @pytest.mark.parametrize("prefix", ["", "module."])
    @pytest.mark.parametrize("under", [None, "state_dict", "model"])
    def test_finds_the_tensors_bare_or_under_a_name_in_any_file(self, under, prefix, tmp_path):
        state = published.under(prefix, STATE)
        content = state if under is None else {"epoch": 3, under: state}
        for name in ("w.pth", "w.pkl"):  # by its content, whatever it is called
            torch.save(content, tmp_path / name)
            torch.testing.assert_close(read_state(tmp_path / name), STATE, rtol=0, atol=0)

    def test_keeps_a_prefix_that_not_all_keys_have(self, tmp_path):
        state = {"module.a": torch.ones(1), "b": torch.ones(1)}
        read = read_state(published.save(state, tmp_path / "w.pth"))
        assert read.keys() == {"module.a", "b"}

    def test_reads_pickles_of_python_2(self, tmp_path):
        data = np.array([1, 2], "<f4").tobytes()
        (tmp_path / "w.pkl").write_bytes(
            b"\x80\x02}U\x01acnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b"
            b"\x87R(K\x01K\x02\x85cnumpy\ndtype\nU\x02f4K\x00K\x01\x87R(K\x03U\x01<NNN"
            b"J\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U\x08" + data + b"tbs."
        )
        assert read_state(tmp_path / "w.pkl")["a"].tolist() == [1, 2]

    @pytest.mark.parametrize(
        ("content", "told"),
        [
            ([1, 2], "w.pkl holds a list"),
            ({"model": {"a": 1}}, "w.pkl holds a dict"),
            ({"a": np.array(["text"])}, "w.pkl holds a dict"),
            ({"a": np.array([1.0, np.nan])}, "1 of 1.*w.pkl.*NaN"),
        ],
    )
    def test_says_what_holds_no_finite_tensors(self, content, told, tmp_path):
        file = published.save(content, tmp_path / "w.pkl")
        with pytest.raises(ValueError, match=told):
            read_state(file)


class TestReadPickle:
    @pytest.mark.parametrize(
        ("data", "match"),
        [
            (b"no pickle", "cannot be read"),
            (b"", r"\(ValueError\); copy"),
            (b"c_codecs\nencode\n(Vtext\nVrot13\ntR.", "text in the encoding 'rot13'"),
            (b"cbuiltins\neval\n(V1\ntR.", "it asks for builtins.eval"),
            (b"cnumpy\nload\n(V1\ntR.", "it asks for numpy.load"),
        ],
    )
    def test_refuses_everything_else(self, data, match, tmp_path):
        (tmp_path / "w.pkl").write_bytes(data)
        with pytest.raises(ValueError, match=match):
            read_checkpoint(tmp_path / "w.pkl")

    def test_there_must_be_a_file(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="gone.pkl"):
            read_checkpoint(tmp_path / "gone.pkl")
        with pytest.raises(FileNotFoundError, match="is a folder"):
            read_state(tmp_path)


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
        buffer, strided = HistoryBuffer([1.0, 2.0], [1, 3]), torch.arange(6.0)[::2]
        content = {
            "state_dict": collections.OrderedDict(a=strided, b=nn.Parameter(torch.ones(2))),
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
            Call(getattr, HistoryBuffer, "update"),
            Call(os.mkdir, "sprung"),
        ],
        ids=["object", "list", "dict", "array", "method", "function"],
    )
    def test_what_is_unknown_is_refused_or_left_empty(self, tmp_path, form, content, monkeypatch):
        monkeypatch.chdir(tmp_path)
        path = save({"unknown": content, "known": torch.ones(1)}, tmp_path / "w.pth", form)
        with pytest.raises(pickle.UnpicklingError, match="it asks for"):
            load_torch(path)
        read = load_torch(path, tolerant=True)
        assert vars(read["unknown"]) == {}
        assert read["known"].tolist() == [1]
        assert [each.name for each in tmp_path.iterdir()] == ["w.pth"], "nothing was called"

    def test_torchscript_never_reaches_torch(self, tmp_path, tolerant):
        torch.jit.script(nn.Linear(1, 1)).save(str(tmp_path / "w.pth"))
        with pytest.raises(pickle.UnpicklingError, match="TorchScript"):
            load_torch(tmp_path / "w.pth", tolerant=tolerant)


class TestLoadPickle:
    def test_follows_as_python_does(self):
        shared = (0.9, 0.999)
        content = {
            "numbers": [1, -1, 2**16, 2**40, -(2**70), 2.5, True, None, 1j, np.float64(1.5)],
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
