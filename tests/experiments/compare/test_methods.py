from inspect import signature

import pytest

from mmssprl.experiments.compare.methods import GROUPS, choose_methods
from mmssprl.pretraining.methods import BY_KEY, METHODS
from mmssprl.registry import MODELS


def test_keys_and_titles_are_all_different_and_groups_name_them():
    assert len(BY_KEY) == len(METHODS) == len({method.title for method in METHODS})
    for names in GROUPS.values():
        assert set(names) <= set(BY_KEY)
    assert not set(GROUPS) & set(BY_KEY)
    assert [m.key for m in METHODS if not m.competes] == ["random", "supervised"]


@pytest.mark.parametrize("size", ["scenes", "photos", "photos-gpu"])
@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.key)
def test_there_is_a_config_of_each_size_with_what_the_comparison_replaces(method, size):
    cfg = method.config_at(size)
    assert cfg.train_dataloader.batch_size
    for name in (method.momentum or [])[:1]:
        bases = MODELS.get(cfg.model.type).__mro__
        assert any(name.removeprefix("model.") in signature(base).parameters for base in bases)


def test_words_are_methods_and_groups_in_the_order_of_the_tables():
    found = [method.key for method in choose_methods(["ssprl", "swav", "random", "ssprl"])]
    assert found == ["random", "swav", "ssprl"]
    found = [method.key for method in choose_methods(["ablations", "swav-small"])]
    assert found == sorted(found, key=list(BY_KEY).index)
    assert {"random", "swav", "swav-small", "ssprl"} <= set(found)
