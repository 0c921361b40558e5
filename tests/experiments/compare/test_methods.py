from mmssprl.experiments.compare.methods import GROUPS, choose_methods
from mmssprl.pretraining.methods import BY_KEY, METHODS


def test_keys_and_titles_are_all_different_and_groups_name_them():
    assert len(BY_KEY) == len(METHODS) == len({method.title for method in METHODS})
    for names in GROUPS.values():
        assert set(names) <= set(BY_KEY)
    assert not set(GROUPS) & set(BY_KEY)
    assert [m.key for m in METHODS if not m.competes] == ["random", "supervised"]


def test_words_are_methods_and_groups_in_the_order_of_the_tables():
    found = [method.key for method in choose_methods(["ssprl", "swav", "random", "ssprl"])]
    assert found == ["random", "swav", "ssprl"]
    found = [method.key for method in choose_methods(["ablations", "swav-small"])]
    assert found == sorted(found, key=list(BY_KEY).index)
    assert {"random", "swav", "swav-small", "ssprl"} <= set(found)
