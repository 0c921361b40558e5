"""Seeded mistakes in shipped configs: each is one line or harmless, none a traceback or a hang."""

import random
from collections import Counter

import pytest
from config_fuzz import FILES, REFUSED, TRAINS, mutate, outcome, small_config, write

from mmssprl.shipped import shipped

NAMES = [
    "configs/ssprl/ssprl_resnet18_photos.py",
    "configs/baselines/mocov2_resnet18_photos.py",
    "configs/baselines/byol_resnet18_scenes.py",
    "configs/baselines/densecl_resnet18_photos.py",
    "configs/ssprl/ssprl-small-views_resnet18_scenes.py",
]


@pytest.fixture(scope="module")
def bases(images):
    return [small_config(shipped(name), images) for name in NAMES]


def test_the_configs_themselves_train(bases, tmp_path):
    for i, base in enumerate(bases):
        write(base, tmp_path / f"right{i}.py")
        assert outcome(tmp_path / f"right{i}.py", tmp_path / f"{i}") == (TRAINS, "")


@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_is_no_config(bases, tmp_path, kind):
    path = tmp_path / f"{kind}.py"
    write(bases[0], path)
    path.write_text(path.read_text() + FILES[kind])
    result, message = outcome(path, tmp_path / "run")
    assert result == REFUSED, message
    assert message.startswith(f"{path}: ")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("seed", "count"), [(0, 40), pytest.param(1, 500, marks=pytest.mark.slow)])
def test_mutations(bases, tmp_path, seed, count):
    rng = random.Random(seed)
    seen: Counter[str] = Counter()
    failed = []
    for i in range(count):
        cfg, mistake = mutate(bases[i % len(bases)], rng)
        path = tmp_path / f"fuzz{seed}_{i}.py"
        write(cfg, path)
        result, message = outcome(path, tmp_path / f"run{i}")
        seen[result] += 1
        if result not in (TRAINS, REFUSED):
            failed.append((result, mistake, message))
        elif result == REFUSED and not message.startswith(f"{path}: "):
            failed.append(("without its file", mistake, message))
    assert not failed, failed
    assert seen[REFUSED] > count / 2
