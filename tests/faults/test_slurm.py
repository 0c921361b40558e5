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
    environ = {**STEP, "MASTER_ADDR": "mine", "MASTER_PORT": "1234"}  # the user's stay
    use_step_environment(environ)
    assert (environ["MASTER_ADDR"], environ["MASTER_PORT"]) == ("mine", "1234")
    with pytest.raises(ValueError, match="SLURM_STEP_ID.*tools/"):
        use_step_environment({"SLURM_JOB_ID": "1"})


@pytest.mark.parametrize("state", ["RUNNING", "CANCELLED", "COMPLETING"])
def test_only_a_job_that_would_be_over_is_requeued(asked, monkeypatch, state):
    monkeypatch.delenv(REQUEUE, raising=False)
    assert not comes_back()
    monkeypatch.setenv(REQUEUE, "1")
    assert comes_back()
    monkeypatch.setenv("STATE", state)
    told = requeue(is_first=True)
    wanted = ["requeue 4711"] if state == "RUNNING" else []
    assert asked() == ["--oneliner show job 4711", *wanted]
    assert told == ("job 4711 is requeued" if wanted else f"job 4711 is {state}, and left to Slurm")
    os.kill(os.getpid(), signal.SIGTERM)  # Slurm's, which a process that is done ignores


def test_other_tasks_ask_nothing_and_a_refusal_names_the_command(asked, tmp_path, monkeypatch):
    assert requeue(is_first=False) is None
    assert not (tmp_path / "asked").exists()
    monkeypatch.setenv("REFUSED", "1")
    told = requeue(is_first=True)
    assert "Slurm is on holiday" in told
    assert "scontrol requeue 4711" in told
