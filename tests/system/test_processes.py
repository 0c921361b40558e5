import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from helpers.package.checkout import ROOT

from mmssprl.errors import UserRuntimeError, UserValueError
from mmssprl.system.processes import (
    COMMAND,
    call_in_process,
    command_of_process,
    explain_collectives,
    require_single_process,
    to_resume,
)

SLOW = """
import os, time
def work():  # as slow as one that imports torch
    print(os.getpid(), flush=True)
    time.sleep(60)
"""
SCRIPT = """
import sys
from slow import work
from mmssprl.system.processes import call_in_process
try:
    call_in_process(work)
except KeyboardInterrupt:
    sys.exit(130)
"""


def test_a_value_comes_back():
    assert call_in_process(divmod, 7, 2) == (3, 1)


def test_an_error_comes_back():
    with pytest.raises(ZeroDivisionError):
        call_in_process(divmod, 7, 0)


def test_ctrl_c_ends_both_processes_without_a_traceback(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    pid = int(process.stdout.readline())
    os.kill(pid, signal.SIGINT)  # first, so that it could say something
    time.sleep(0.5)
    assert process.poll() is None
    os.kill(process.pid, signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    assert (process.returncode, stderr) == (130, "")


def test_a_command_resumes_from_the_newest_checkpoint():
    for given in ("--overwrite", "--resume", "--resume=old.pth", "--resume old.pth"):
        for words in (f"train.py {given} --amp", f"train.py --amp {given}"):
            assert to_resume(words.split()) == ["train.py", "--amp", "--resume"], words


def test_the_command_is_what_the_interpreter_was_given(monkeypatch):
    for name in ("LOCAL_RANK", "WORLD_SIZE", COMMAND):
        monkeypatch.delenv(name, raising=False)
    assert command_of_process() == sys.orig_argv


def test_the_command_of_a_rank_is_the_one_that_its_launcher_was_given(monkeypatch):
    monkeypatch.setenv(COMMAND, r"bash tools/dist_train.sh a\ b.py 2 ")
    assert command_of_process() == ["bash", "tools/dist_train.sh", "a b.py", "2"]


def all_gather_into_tensor(error):
    raise error


def later(error):
    raise error


@pytest.fixture
def ranks(monkeypatch):
    """Be one rank of several."""

    def ranks(rank, num_ranks):
        monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
        monkeypatch.setattr(torch.distributed, "get_rank", lambda: rank)
        monkeypatch.setattr(torch.distributed, "get_world_size", lambda: num_ranks)

    return ranks


GLOO = "[unbound_buffer.cc:78] Timed out waiting 5000ms for recv operation to complete"


@pytest.mark.parametrize(
    ("call", "rank", "num_ranks", "words"),
    [
        (all_gather_into_tensor, 0, 2, "rank 0 waited 5 s for rank 1 in all_gather_into_tensor"),
        (later, 3, 4, "rank 3 waited 5 s for the other 3 ranks in all_reduce"),
    ],
)
def test_a_collective_that_times_out_is_named(ranks, call, rank, num_ranks, words):
    ranks(rank, num_ranks)
    cfg = {"env_cfg": {"dist_cfg": {"timeout": 5}}}
    message = f"^{words}; end a process that hangs and resume, or raise env_cfg.dist_cfg.timeout"
    with pytest.raises(UserRuntimeError, match=message), explain_collectives(cfg):
        call(RuntimeError(GLOO))


def test_gradients_are_named_by_their_collective(ranks):
    ranks(1, 2)
    lost = (torch.ones(1, requires_grad=True) * 1).sum()
    lost.register_hook(lambda gradient: later(RuntimeError(GLOO)))
    with (
        pytest.raises(UserRuntimeError, match="rank 1 waited 1,800 s for rank 0 in all_reduce;"),
        explain_collectives({}),
    ):
        lost.backward()


def test_other_errors_of_ranks_stay(ranks):
    ranks(0, 2)
    for error in (RuntimeError("Connection closed by peer"), UserRuntimeError("Timed out.")):
        with pytest.raises(RuntimeError) as caught, explain_collectives({}):
            later(error)
        assert caught.value is error


def test_processes_of_torchrun_need_a_launcher(monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "a")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UserValueError, match=r"torchrun started 2; use tools/dist_train\.sh, .*"):
        require_single_process("train")


def test_one_process_of_torchrun_needs_no_launcher(monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "a")
    monkeypatch.setenv("WORLD_SIZE", "1")
    require_single_process("train")


def test_variables_of_an_earlier_job_need_no_launcher(monkeypatch):
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    monkeypatch.setenv("WORLD_SIZE", "2")
    require_single_process("train")
