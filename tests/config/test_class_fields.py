import pytest
from torch import nn

from mmssprl.config.class_fields import Fields, fields_of
from mmssprl.registry import HOOKS, MODELS, OPTIMIZERS, PARAM_SCHEDULERS


class Parent(nn.Module):
    def __init__(self, width, *, depth=1):
        super().__init__()


class Hands(Parent):
    def __init__(self, more, **kwargs):
        super().__init__(**kwargs)


class Silent(Hands):
    pass


class NoConstructor(nn.Module):
    pass


class Module(nn.Module):
    def __init__(self, own, **kwargs):
        super().__init__(**kwargs)


OF_HANDS = {"more", "width", "depth"}
CASES = [
    (Parent, {"width", "depth"}, False),
    (Hands, OF_HANDS, True),
    (Silent, OF_HANDS, True),
    (Module, {"own"}, True),
    (NoConstructor, set(), False),
]


@pytest.mark.parametrize(("kind", "names", "is_open"), CASES)
def test_fields_of_parents_are_known_and_what_is_handed_on_is_open(kind, names, is_open):
    assert fields_of(kind, MODELS, "mmssprl") == Fields(frozenset(names), is_open)


def test_functions_have_their_arguments():
    def collate(batch, pad=0):
        return batch

    assert fields_of(collate, MODELS, "mmssprl") == Fields(frozenset({"batch", "pad"}), False)
    assert fields_of(lambda batch, **rest: batch, MODELS, "mmssprl").is_open


def test_registered_names_and_what_mmengine_takes_itself():
    hook = fields_of("PretrainCheckpointHook", HOOKS, "mmssprl")
    assert {"interval", "max_keep_ckpts", "priority"} <= hook.names
    assert not hook.is_open
    assert "convert_to_iter_based" in fields_of("StepLR", PARAM_SCHEDULERS, "mmssprl").names
    assert {"lr", "weight_decay"} <= fields_of("AdamW", OPTIMIZERS, "mmssprl").names


@pytest.mark.parametrize("kind", ["SSPLR", 3, None, [1], "abc", "no.such.Class"])
def test_what_is_not_registered_has_no_fields(kind):
    assert fields_of(kind, MODELS, "mmssprl") is None


def annotated(a: float | None = None, b: bool = True, c: float | list[float] = 0, d: str = ""): ...


def test_numbers_and_truth_values_are_told_by_their_annotations():
    annotated.__module__ = "mmssprl.own"
    kinds = fields_of(annotated, MODELS, "mmssprl").kinds
    assert {name: kind.words.split()[-1] for name, kind in kinds.items()} == {
        **{"a": "number", "b": "False", "c": "them"}
    }
    for name, value, fits in [
        *[("a", 1, True), ("a", None, True), ("a", "1", False), ("a", [1.0], False)],
        *[("b", 0, True), ("b", "no", False), ("c", [1.0], True), ("c", {}, False)],
    ]:
        assert isinstance(value, kinds[name].classes) == fits
