"""Every trap is set in each form that a file can have, and none goes off."""

import collections
import io
import os
import pickle
import tarfile
import types

import numpy as np
import pytest
import torch
from mmengine.logging import HistoryBuffer
from torch import nn

from mmssprl.weights.safe_pickle import SafeUnpickler, TolerantUnpickler, load_torch

BOTH = [SafeUnpickler, TolerantUnpickler]


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


class TestLoadTorch:
    @pytest.mark.parametrize("unpickler", BOTH)
    def test_rebuilds_what_trainings_write(self, tmp_path, form, unpickler):
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
        read = load_torch(save(content, tmp_path / "w.pth", form), unpickler)
        assert read["state_dict"]["a"].tolist() == [0, 2, 4]
        assert isinstance(read["state_dict"]["b"], nn.Parameter)
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
            types.SimpleNamespace(a=1),
            collections.deque([1, 2]),
            collections.defaultdict(int, a=1),
            np.zeros(2).view(Array),
            Calling(getattr, HistoryBuffer, "update"),
            Calling(getattr, Holder, "__init__"),
        ],
        ids=["object", "namespace", "list", "dict", "array", "method", "attribute"],
    )
    def test_an_unknown_object_is_refused_or_left_empty(self, tmp_path, form, content):
        path = save({"unknown": content, "known": torch.ones(1)}, tmp_path / "w.pth", form)
        with pytest.raises(pickle.UnpicklingError, match="it asks for"):
            load_torch(path, SafeUnpickler)
        read = load_torch(path, TolerantUnpickler)
        assert vars(read["unknown"]) == {}
        assert read["known"].tolist() == [1]

    @pytest.mark.parametrize("unpickler", BOTH)
    def test_no_form_runs_code(self, tmp_path, form, unpickler):
        folder = tmp_path / "sprung"
        path = save(
            {"trap": Calling(os.mkdir, str(folder)), "a": torch.ones(1)},
            tmp_path / "w.pth",
            form,
        )
        if unpickler is SafeUnpickler:
            with pytest.raises(pickle.UnpicklingError, match=r"it asks for posix.mkdir"):
                load_torch(path, unpickler)
        else:
            load_torch(path, unpickler)
        assert not folder.exists()
        torch.load(path, weights_only=False)
        assert folder.exists(), "so it was armed"

    @pytest.mark.parametrize("unpickler", BOTH)
    def test_torchscript_never_reaches_torch(self, tmp_path, monkeypatch, unpickler):
        torch.jit.script(nn.Linear(1, 1)).save(str(tmp_path / "w.pth"))
        monkeypatch.setattr(torch.jit, "load", lambda *_, **__: pytest.fail("was loaded"))
        with pytest.raises(pickle.UnpicklingError, match="TorchScript"):
            load_torch(tmp_path / "w.pth", unpickler)

    @pytest.mark.parametrize("unpickler", BOTH)
    def test_tar_files_never_reach_torch(self, tmp_path, monkeypatch, unpickler):
        (tmp_path / "storages").write_bytes(pickle.dumps(0, protocol=2))
        with tarfile.open(tmp_path / "w.pth", "w") as file:
            file.add(tmp_path / "storages", "storages")
        monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("was loaded"))
        with pytest.raises(pickle.UnpicklingError, match="tar archive"):
            load_torch(tmp_path / "w.pth", unpickler)

    def test_a_file_cannot_change_the_functions_that_it_names(self):
        """Protocol 2 sets attributes of any object by a pair of states."""
        # The function, the states (None, {"mark": 0}), and the order to set them.
        data = b"\x80\x02ctorch._utils\n_rebuild_tensor\nN}X\x04\x00\x00\x00markK\x00s\x86b."
        function = torch._utils._rebuild_tensor
        TolerantUnpickler(io.BytesIO(data)).load()
        assert not hasattr(function, "mark")
        pickle.loads(data)
        assert function.mark == 0, "Python's own unpickler does"
        del function.mark
