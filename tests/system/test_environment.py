import os
import re
import subprocess

import pytest
import torch

from mmssprl.system import environment
from mmssprl.system.environment import default_threads, torch_threads


def test_cores_that_affinity_forbids_do_not_count(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0}, raising=False)
    assert environment.usable_cores() == 1


def test_threads_are_as_many_as_cores_unless_the_user_says(monkeypatch):
    monkeypatch.setattr(environment, "usable_cores", lambda: 2)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with torch_threads(3):
        assert (torch.get_num_threads(), default_threads()) == (3, 2)
        monkeypatch.setenv("OMP_NUM_THREADS", "3")
        assert default_threads() == 3


def test_threads_are_set_back_even_after_an_error():
    with pytest.raises(ZeroDivisionError), torch_threads(2):
        _ = 1 // 0
    assert torch.get_num_threads() == 1


def test_one_thread_on_a_busy_machine(monkeypatch):
    monkeypatch.setattr(environment, "default_threads", lambda: 2)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    for load, environ, threads in ((3.9, {}, 2), (4.1, {}, 1), (4.1, {"OMP_NUM_THREADS": "2"}, 2)):
        monkeypatch.setattr(os, "getloadavg", lambda load=load: (load, 0.0, 0.0))
        monkeypatch.setattr(os, "environ", environ)
        assert environment.training_threads() == threads


def test_the_imports_of_a_process_are_frozen_once(monkeypatch):
    frozen = []
    monkeypatch.setattr(environment.gc, "freeze", lambda: frozen.append(1))
    monkeypatch.setattr(environment.gc, "get_freeze_count", lambda: len(frozen))
    environment.freeze_imports()
    environment.freeze_imports()
    assert frozen == [1]


class TestCommit:
    @pytest.fixture
    def repository(self, tmp_path, monkeypatch):
        """A repository of one commit."""
        for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
            monkeypatch.delenv(name, raising=False)
        (tmp_path / "a.txt").touch()
        (tmp_path / ".gitignore").write_text(".venv")
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        for words in (["init", "-q"], ["add", "-A"], [*who, "commit", "-q", "-m", "a"]):
            subprocess.run(["git", *words], cwd=tmp_path, check=True)
        return tmp_path

    @pytest.fixture
    def place(self, monkeypatch):
        """A function that moves the package below a folder."""

        def move(folder):
            path = folder / "mmssprl/system/environment.py"
            path.parent.mkdir(parents=True)
            monkeypatch.setattr(environment, "__file__", str(path))

        return move

    def test_a_checkout_has_a_commit(self, repository, place):
        place(repository)
        commit = environment.source_commit()
        assert re.fullmatch("[0-9a-f]{7,}", commit)
        (repository / "a.txt").write_text("changed")
        assert environment.source_commit() == f"{commit} with uncommitted changes"

    def test_a_package_inside_a_user_s_repository_has_none(self, repository, place):
        place(repository / ".venv/lib/site-packages")
        assert environment.source_commit() == "unknown (no git checkout)"
