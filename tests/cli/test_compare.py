from types import SimpleNamespace

import pytest

from mmssprl.cli import main
from mmssprl.experiments.compare import start


@pytest.fixture
def asked(monkeypatch):
    """Let the command do nothing but keep what it was asked for."""
    requests = []

    def comparison(request):
        requests.append(request)
        return SimpleNamespace(run=lambda: 0, describe=lambda: print("described"))

    monkeypatch.setattr(start, "Comparison", comparison)
    return requests


def test_options_become_a_request(asked, tmp_path):
    words = "--methods all --seeds 5 --equal time flops --reference swav --tune"
    assert main(["compare", "--data", str(tmp_path), *words.split(), "--jobs", "3"]) == 0
    [request] = asked
    assert (request.words, request.num_seeds, request.equal) == (["all"], 5, ["time", "flops"])
    assert (request.data, request.size, request.jobs.num) == (tmp_path, "photos", 3)
    assert str(request.work_dir) == "work_dirs/compare_photos"
    assert request.tune
    # Whatever changes the tables, but no folders of this machine.
    assert request.command == f"python -m mmssprl compare --data {tmp_path.name} {words}"


def test_without_data_it_is_scenes_equal_epochs_and_time_and_one_thread(asked, capsys, on_cpu):
    assert main(["compare", "--dry-run", "--jobs", "1"]) == 0
    [request] = asked
    assert (request.data, request.size, request.jobs.threads) == (None, "scenes", 1)
    assert request.equal == ["epochs", "time"]
    assert request.dry_run
    assert capsys.readouterr().out == "described\n"


def test_the_demo_is_a_comparison_of_equal_time(asked, on_cpu):
    assert main(["demo", "--seeds", "2"]) == 0
    [request] = asked
    assert request.words == ["random", "swav-small", "ssprl", "ssprl-small-sampled"]
    assert (request.size, request.epochs, request.batch_size) == ("scenes", 6, 32)
    assert (request.equal, request.num_seeds) == (["time"], 2)
    assert str(request.work_dir) == "work_dirs/demo"
