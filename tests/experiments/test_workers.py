import os

import pytest

from mmssprl.experiments.run import RunFailedError
from mmssprl.experiments.workers import Workers


def told_threads():
    import torch

    print("the worker's output", flush=True)
    return torch.get_num_threads(), os.environ["CUDA_VISIBLE_DEVICES"], os.getpid()


def fail():
    raise ValueError("of two\nlines")


def test_workers_have_one_thread_no_gpu_and_their_own_output(tmp_path, capfd):
    log = tmp_path / "runs.log"
    with Workers(1, log) as workers:
        threads, gpus, process = workers.call(told_threads)
        assert (threads, gpus) == (1, "")
        assert process != os.getpid()
        assert workers.submit(told_threads).result()[2] == process
        with pytest.raises(RunFailedError, match=rf"^ValueError: of two lines \(see {log}\)$"):
            workers.call(fail)
    assert log.read_text().count("the worker's output\n") == 2
    assert "in fail" in log.read_text()
    assert "the worker's output" not in capfd.readouterr().out
