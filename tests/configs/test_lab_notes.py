import ast

import pytest
from helpers.package.checkout import ROOT
from mmengine.config import Config

from mmssprl.finetuning.tasks import TASKS

CONFIGS = ROOT / "configs"
ALL = sorted(path for path in CONFIGS.rglob("*.py") if path.parent.name != "_base_")
BENCHMARKS = [path for path in ALL if path.is_relative_to(CONFIGS / "benchmarks")]
BASES = sorted((CONFIGS / "_base_").glob("*.py"))


def bases_of(path):
    return [path.parent / base for base in Config._get_base_files(str(path))]


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_the_note_says_how_to_run_it(path):
    assert len(ALL) >= 32
    text = ast.get_docstring(ast.parse(path.read_text()))
    assert str(path.relative_to(CONFIGS.parent)) in text  # in a command that can be copied
    assert "Hardware: " in text


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_a_depth_of_two_is_enough(path):
    for base in bases_of(path):
        assert "::" not in str(base), "of another package"
        assert all(bases_of(below) == [] for below in bases_of(base))


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_a_benchmark_starts_from_random_weights(path):
    assert len(BENCHMARKS) >= 12
    cfg = Config.fromfile(path)
    assert cfg.weights == "random"
    assert "init_cfg" not in cfg.model.backbone


def test_mim_finds_each_config_by_its_name():
    stems = [path.stem for path in (*ALL, *BASES)]
    assert len(stems) == len(set(stems))


def test_every_base_is_in_use():
    used = set()
    for path in (*ALL, *BASES):
        used |= {base.resolve() for base in bases_of(path)}
    for kind in TASKS.values():
        used |= {CONFIGS.parent / kind.base_config(on_gpu=on_gpu) for on_gpu in (True, False)}
    assert BASES
    assert set(BASES) <= used
