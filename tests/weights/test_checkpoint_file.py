import pickle

import numpy as np
import pytest
import torch
from helpers.weights import published_checkpoints as published

from mmssprl.weights.checkpoint_file import read_checkpoint, read_state

ARRAYS = {
    "a.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "a.num_batches_tracked": np.array(7),
}


def check(state):
    assert state.keys() == ARRAYS.keys()
    assert torch.equal(state["a.weight"], torch.tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]))
    assert state["a.weight"].dtype == torch.float32
    assert int(state["a.num_batches_tracked"]) == 7


class TestReadState:
    @pytest.mark.parametrize("prefix", ["", "module."])
    @pytest.mark.parametrize("under", [None, "state_dict", "model"])
    def test_finds_the_tensors_bare_or_under_a_name(self, under, prefix, tmp_path):
        state = {prefix + key: torch.from_numpy(value) for key, value in ARRAYS.items()}
        content = state if under is None else {"epoch": 3, under: state}
        check(read_state(published.save(content, tmp_path / "w.pth")))

    def test_goes_by_the_content_of_what_torch_saved_under_another_name(self, tmp_path):
        state = {key: torch.from_numpy(value) for key, value in ARRAYS.items()}
        torch.save(state, tmp_path / "w.pkl")
        check(read_state(tmp_path / "w.pkl"))

    def test_keeps_a_prefix_that_not_all_keys_have(self, tmp_path):
        state = {"module.a": torch.ones(1), "b": torch.ones(1)}
        read = read_state(published.save(state, tmp_path / "w.pth"))
        assert read.keys() == {"module.a", "b"}

    @pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
    def test_reads_pickles_of_every_protocol(self, protocol, tmp_path):
        content = {"model": ARRAYS, "best": np.float64(1.5), "__author__": "somebody"}
        file = published.save(content, tmp_path / "w.pkl", protocol=protocol)
        check(read_state(file))
        assert read_checkpoint(file)["best"] == 1.5

    def test_reads_pickles_of_python_2(self, tmp_path):
        data = np.array([1, 2], "<f4").tobytes()
        (tmp_path / "w.pkl").write_bytes(
            b"\x80\x02}U\x01acnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b"
            b"\x87R(K\x01K\x02\x85cnumpy\ndtype\nU\x02f4K\x00K\x01\x87R(K\x03U\x01<NNN"
            b"J\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U\x08" + data + b"tbs."
        )
        assert read_state(tmp_path / "w.pkl")["a"].tolist() == [1, 2]

    @pytest.mark.parametrize(
        ("content", "kind"),
        [([1, 2], "list"), ({"model": {"a": 1}}, "dict"), ({"a": np.array(["text"])}, "dict")],
    )
    def test_says_what_holds_no_tensors(self, content, kind, tmp_path):
        file = published.save(content, tmp_path / "w.pkl")
        with pytest.raises(ValueError, match=rf"w.pkl holds a {kind}"):
            read_state(file)

    def test_values_must_be_finite(self, tmp_path):
        file = published.save({"a": np.array([1.0, np.nan])}, tmp_path / "w.pkl")
        with pytest.raises(ValueError, match=r"1 of 1.*w.pkl.*NaN"):
            read_state(file)


class TestReadPickle:
    def test_never_runs_code(self, tmp_path):
        trap = _Trap(tmp_path / "sprung")
        file = published.save({"model": ARRAYS, "extra": trap}, tmp_path / "w.pkl")
        with pytest.raises(ValueError, match=r"w.pkl.*_spring"):
            read_state(file)
        assert not trap.path.exists()
        pickle.loads(file.read_bytes())
        assert trap.path.exists()  # so it was armed

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


class _Trap:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return _spring, (self.path,)


def _spring(path):
    path.touch()
