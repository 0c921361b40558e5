from pathlib import Path
from unittest import mock

import pytest
from helpers.system.no_gpu import call_without_gpu

from mmssprl.errors import UserValueError
from tools.dev.faults import configs
from tools.dev.faults.base import Answer
from tools.dev.faults.small_configs import small_configs, write_data

pytestmark = pytest.mark.fault
PATTERN = "baselines/[bms][!a]*_scenes.py"


@pytest.fixture(scope="module")
def right(tmp_path_factory):
    """The shipped configs as they are, small."""
    folder = tmp_path_factory.mktemp("configs")
    paths = []
    for name, cfg in small_configs(write_data(folder), PATTERN).items():
        paths.append(folder / name.rpartition("/")[2])
        configs.write(cfg, paths[-1])
    return paths


def outcomes_of(paths, folder):
    return [configs.outcome(path, folder / path.stem).kind for path in paths]


def test_the_configs_themselves_train(right, tmp_path):
    assert len(right) == 3
    outcomes = call_without_gpu(outcomes_of, right, tmp_path)
    assert outcomes == [configs.TRAINS] * 3


def test_mistakes(right):
    outcome = call_without_gpu(configs.configs, print, 12, PATTERN)
    assert outcome.survived == outcome.tries == 12
    assert int(outcome.remark.split()[0]) > 6  # the others do no harm


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError(), "traceback"),
        (None, "ends without a step"),
        (UserValueError("own.py: model.a: 'a' is no number"), "not of the form"),
        (UserValueError("own.py: model.a: it must be\n so; correct it."), "not of the form"),
        (UserValueError("own.py: model.a: it must be so; correct it."), configs.REFUSED),
    ],
)
def test_the_fuzz_sees_what_does_not_survive(tmp_path, monkeypatch, error, kind):
    monkeypatch.setattr(configs, "prepare_train_config", mock.Mock(side_effect=error))
    monkeypatch.setattr(configs, "run", mock.Mock())
    assert configs.outcome(Path("own.py"), tmp_path).kind == kind


def test_a_training_in_spite_of_a_mistake_does_not_survive(monkeypatch):
    monkeypatch.setattr(configs, "outcome", lambda *args, **options: Answer(configs.TRAINS))
    lines = []
    outcome = configs.configs(lines.append, tries=100, pattern=PATTERN)
    assert 50 < outcome.survived < outcome.tries
    assert len(lines) == outcome.tries - outcome.survived
    assert any("set to nan: trains in spite of it" in line for line in lines)
