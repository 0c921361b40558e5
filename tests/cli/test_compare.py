from types import SimpleNamespace

import pytest

from mmssprl.cli import main
from mmssprl.experiments.compare import start


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """Record the options of the command instead of running it."""
    found = []

    def comparison(asked, **beside):
        found.extend([asked, beside])
        return SimpleNamespace(start=lambda dry_run: 0)

    monkeypatch.setattr(start, "Comparison", comparison)
    return found


def test_the_report_names_what_changes_its_tables(asked, tmp_path):
    words = "--methods all --seeds 5 --equal time flops --reference swav --tune"
    assert main(["compare", "--data", str(tmp_path), *words.split(), "--jobs", "3"]) == 0
    options, beside = asked
    assert (options.methods, options.seeds, options.equal) == (["all"], 5, ["time", "flops"])
    assert (options.jobs, options.tune, options.dry_run) == (3, True, False)
    expected = f"python -m mmssprl compare --data {tmp_path.name} {words}"
    assert beside == {"batch_size": 64, "command": expected}  # no folder of this machine


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("folder/rows.yaml:pooled", "rows.yaml:pooled"),
        ("distill:teacher=timm/resnet50,epochs=3", "distill:teacher=timm/resnet50,epochs=3"),
        ("distill:teacher=/home/me/t.pth,epochs=3", "distill:teacher=t.pth,epochs=3"),
    ],
)
def test_the_report_names_rows_without_folders(word, shown, asked):
    assert main(["compare", "--methods", word]) == 0
    assert asked[1]["command"] == f"python -m mmssprl compare --methods {shown}"


def test_the_demo_is_a_comparison_of_equal_time(asked):
    assert main(["demo", "--seeds", "2"]) == 0
    options, beside = asked
    assert options.methods == ("random", "swav-small", "ssprl", "ssprl-small-sampled")
    assert (options.size, options.epochs, beside["batch_size"]) == ("scenes", 6, 32)
    assert (options.equal, options.seeds) == (("time",), 2)
    assert options.work_dir == "work_dirs/demo"


def test_the_demo_ends_with_the_command_for_own_photographs(asked, capsys):
    assert main(["demo"]) == 0
    *words, last = capsys.readouterr().out.splitlines()
    assert "do not say which method is better" in " ".join(words)
    assert last == "next: python -m mmssprl pretrain photos/ --backbone resnet18"
