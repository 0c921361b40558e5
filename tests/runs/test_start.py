"""The start of a planned run, and what follows its training; nothing is trained."""

import json
from dataclasses import replace

import pytest
from helpers.pretraining.paces import FORECAST
from mmengine.config import Config

from mmssprl.config.shipped import shipped
from mmssprl.errors import UserFileExistsError, UserOSError
from mmssprl.finetuning.options import FinetuneOptions
from mmssprl.runs import start
from mmssprl.runs.start import PlannedRun, resume_run, start_run

PRETRAINING = "configs/ssprl/ssprl_resnet18_scenes.py"
BENCHMARK = "configs/benchmarks/classification/linear_resnet18_scenes.py"


@pytest.fixture
def planned():
    """A run on a CPU that reads one file of its own."""
    return PlannedRun(
        name="own",
        cfg=Config.fromfile(shipped(PRETRAINING)),
        recipe={"method": "SS-PRL"},
        forecast=FORECAST,
        num_gpus=0,
        write_inputs=lambda folder: (folder / "classes.txt").write_text("dog\n"),
    )


@pytest.fixture
def events(monkeypatch):
    """What happens in a work dir, in order: each event with the files that are there."""
    found = []

    def train(config, work_dir, **options):
        found.append(("train", names(work_dir), options))

    def report(work_dir, log):
        found.append(("report", names(work_dir)))

    monkeypatch.setattr(start, "train_config", train)
    monkeypatch.setattr(start, "report_run", report)
    return found


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def begin(work_dir, planned, finish=lambda config: config.name):
    lines = []
    result = start_run(work_dir, planned, finish, resume_by=["again"], log=lines.append)
    return result, lines


def test_files_of_a_run_are_written_before_it_trains(planned, events, tmp_path):
    work_dir = tmp_path / "run"
    result, lines = begin(work_dir, planned)
    written = ["classes.txt", "own.py", "recipe.json"]
    options = {"num_gpus": 0, "resume": None, "resume_by": ["again"]}
    assert events == [("train", written, options), ("report", written)]
    assert json.loads((work_dir / "recipe.json").read_text()) == planned.recipe
    assert Config.fromfile(work_dir / "own.py").to_dict() == planned.cfg.to_dict()
    assert lines == [f"config: {work_dir / 'own.py'}"]
    assert result == "own.py"


def test_the_config_is_written_last(planned, events, tmp_path, monkeypatch):
    """A run with a config can be resumed, so all that it reads must exist."""
    written = []
    write = start.write_whole

    def note(path, text):
        written.append(path.name)
        write(path, text)

    monkeypatch.setattr(start, "write_whole", note)
    begin(tmp_path / "run", planned)
    assert written == ["recipe.json", "own.py"]


def test_inputs_are_written_before_the_config_that_lets_a_run_resume(planned, events, tmp_path):
    def fail(folder):
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        begin(tmp_path / "run", replace(planned, write_inputs=fail))
    assert names(tmp_path / "run") == []


def test_a_used_work_dir_is_refused_at_the_last_moment(planned, events, tmp_path):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(UserFileExistsError, match="work_dir must be new or empty"):
        begin(tmp_path, planned)
    assert names(tmp_path) == ["notes.txt"]
    assert events == []


def test_a_run_that_does_not_fit_on_the_disk_leaves_nothing(planned, events, tmp_path):
    huge = replace(FORECAST, other_bytes=10**18)
    with pytest.raises(UserOSError):
        begin(tmp_path / "run", replace(planned, forecast=huge))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("config", "num_gpus", "reports"),
    [(PRETRAINING, 0, 1), (PRETRAINING, 1, 1), (PRETRAINING, 2, 0), (BENCHMARK, 2, 1)],
)
def test_a_run_is_reported_once(config, num_gpus, reports, planned, events, tmp_path):
    """The first of several processes reports a pre-training."""
    cfg = Config.fromfile(shipped(config))
    begin(tmp_path / "run", replace(planned, cfg=cfg, num_gpus=num_gpus))
    assert [event for event, *_ in events] == ["train"] + reports * ["report"]


def test_a_run_without_a_checkpoint_resumes_from_its_start(planned, events, tmp_path, on_cpu):
    config = tmp_path / "own.py"
    config.write_text(planned.cfg.pretty_text)
    cfg = Config.fromfile(config)
    options = {"resume_by": ["again"], "log": lambda line: None}
    assert resume_run(cfg, FinetuneOptions(resume=True), str, **options) == str(config)
    (_, _, trained), _ = events
    assert trained == {"num_gpus": 0, "resume": "auto", "resume_by": ["again"]}
