from mmssprl.experiments.compare.methods import choose_methods
from mmssprl.pretraining.methods import BY_KEY, METHODS


def test_keys_and_titles_are_all_different():
    assert len(BY_KEY) == len(METHODS) == len({method.title for method in METHODS})
    assert [m.key for m in METHODS if not m.competes] == ["random", "supervised"]


def test_words_are_methods_in_the_order_of_the_tables():
    found = [method.key for method in choose_methods(["ssprl", "swav", "random", "ssprl"])]
    assert found == ["random", "swav", "ssprl"]
    found = [method.key for method in choose_methods(["all", "swav"])]
    assert found == [key for key in BY_KEY if key != "distill"]
