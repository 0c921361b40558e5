import pytest
from mmengine.config import Config

from mmssprl.config.hooks import add_hook, find_hook, hook_key, hook_value, hooks_of, remove_hooks
from mmssprl.distillation import TeacherHook

HOOKS = [
    {"type": "PretrainHook"},
    {"type": "mmssprl.TeacherHook", "teacher": "first"},
    {"type": TeacherHook, "teacher": "second", "teacher_px": 64},
]


@pytest.fixture
def cfg():
    return Config({"custom_hooks": HOOKS})


def names(cfg):
    return [hook["type"] for hook in hooks_of(cfg)]


def test_the_first_hook_of_a_class_is_found_with_or_without_a_scope(cfg):
    assert find_hook(cfg, "TeacherHook").teacher == "first"
    assert find_hook(cfg, "Hook") is None  # not by a part of a name
    remove_hooks(cfg, "PretrainHook", "Other")
    cfg.custom_hooks = cfg.custom_hooks[1:]
    assert find_hook(cfg, "TeacherHook").teacher == "second"  # a class, as in a Python config


def test_a_field_that_is_not_set_is_none(cfg):
    assert hook_value(cfg, "TeacherHook", "teacher") == "first"
    assert hook_value(cfg, "TeacherHook", "teacher_px") is None
    assert hook_value(cfg, "ProbeHook", "data") is None


def test_the_key_of_a_field_sets_it(cfg):
    key = hook_key(cfg, "TeacherHook", "folder")
    cfg.merge_from_dict({key: "maps"})
    assert hook_value(cfg, "TeacherHook", "folder") == "maps"
    assert hook_key(cfg, "ProbeHook", "data") is None


def test_a_hook_is_added_after_the_others(cfg):
    add_hook(cfg, "ProbeHook", data="photos")
    assert names(cfg)[:2] == ["PretrainHook", "mmssprl.TeacherHook"]
    assert hooks_of(cfg)[-1] == {"type": "ProbeHook", "data": "photos"}


def test_all_hooks_of_a_class_are_removed(cfg):
    remove_hooks(cfg, "TeacherHook")
    assert names(cfg) == ["PretrainHook"]


@pytest.mark.parametrize("content", [{}, {"custom_hooks": None}])
def test_a_config_without_hooks_has_none_to_remove(content):
    cfg = Config(content)
    remove_hooks(cfg, "TeacherHook")
    assert cfg.get("custom_hooks") is None
    add_hook(cfg, "ProbeHook")
    assert names(cfg) == ["ProbeHook"]


@pytest.mark.parametrize("hook", [{"type": None}, {"type": 3}, {}, None, "PretrainHook"])
def test_a_wrong_hook_is_left_to_the_checks_of_the_config(hook):
    cfg = Config({"custom_hooks": [hook, *HOOKS]})
    assert find_hook(cfg, "TeacherHook").teacher == "first"
    remove_hooks(cfg, "TeacherHook")
    assert len(hooks_of(cfg)) == 2
