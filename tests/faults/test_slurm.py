import os
import signal
import sys

import pytest

from mmssprl.system.slurm import REQUEUE, comes_back, requeue, use_step_environment

pytestmark = [pytest.mark.fault, pytest.mark.fence]

STEP = {
    "SLURM_JOB_ID": "4711",
    "SLURM_STEP_ID": "2",
    "SLURM_PROCID": "5",
    "SLURM_LOCALID": "1",
    "SLURM_NTASKS": "8",
    "SLURM_NODELIST": "all[1-9]",
    "SLURM_STEP_NODELIST": "node[3-6]",
}
FAKE_SCONTROL = f"""#!{sys.executable}
import os, sys
open(os.environ["ASKED"], "a").write(" ".join(sys.argv[1:]) + "\\n")
if sys.argv[1:3] == ["show", "hostnames"]:
    print("node3\\nnode4")
elif "show" in sys.argv:
    print("JobId=4711 JobName=a JobState=" + os.environ["STATE"] + " Reason=None")
elif os.environ.get("REFUSED"):
    sys.exit("Slurm is on holiday")
"""


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """A scontrol that writes down what it was asked."""
    (tmp_path / "scontrol").write_text(FAKE_SCONTROL)
    (tmp_path / "scontrol").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("ASKED", str(tmp_path / "asked"))
    monkeypatch.setenv("STATE", "RUNNING")
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1)}
    yield lambda: (tmp_path / "asked").read_text().splitlines()
    for number, handler in handlers.items():
        signal.signal(number, handler)


def test_what_srun_sets_becomes_what_torch_reads(asked):
    ranks = {"RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8"}
    where = {"MASTER_ADDR": "node3", "MASTER_PORT": "27112"}
    step = {**STEP, "SLURM_STEP_NUM_NODES": "4"}
    environ = dict(step)
    use_step_environment(environ)
    assert environ == {**step, **ranks, **where, "LOCAL_WORLD_SIZE": "2"}
    assert asked() == ["show hostnames node[3-6]"]


def test_an_address_of_the_user_stays(asked):
    environ = {**STEP, "MASTER_ADDR": "mine", "MASTER_PORT": "1234"}  # the user's stay
    use_step_environment(environ)
    assert (environ["MASTER_ADDR"], environ["MASTER_PORT"]) == ("mine", "1234")


def test_a_process_that_srun_did_not_start_is_refused():
    with pytest.raises(ValueError, match="SLURM_STEP_ID.*tools/"):
        use_step_environment({"SLURM_JOB_ID": "1"})


def test_a_job_comes_back_if_the_user_lets_it(asked, monkeypatch):
    monkeypatch.delenv(REQUEUE, raising=False)
    assert not comes_back()
    monkeypatch.setenv(REQUEUE, "1")
    assert comes_back()


def test_a_running_job_is_requeued(asked):
    assert requeue(is_first=True) == "job 4711 is requeued"
    assert asked() == ["--oneliner show job 4711", "requeue 4711"]
    os.kill(os.getpid(), signal.SIGTERM)  # by Slurm: a process that is done ignores it


@pytest.mark.parametrize("state", ["CANCELLED", "COMPLETING"])
def test_a_job_that_is_over_is_left_to_slurm(asked, monkeypatch, state):
    monkeypatch.setenv("STATE", state)
    assert requeue(is_first=True) == f"job 4711 is {state}, and left to Slurm"
    assert asked() == ["--oneliner show job 4711"]


def test_other_tasks_ask_nothing(asked, tmp_path):
    assert requeue(is_first=False) is None
    assert not (tmp_path / "asked").exists()


def test_a_refusal_names_the_command(asked, monkeypatch):
    monkeypatch.setenv("REFUSED", "1")
    line = requeue(is_first=True)
    assert "Slurm is on holiday" in line
    assert "scontrol requeue 4711" in line
