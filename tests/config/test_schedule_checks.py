import re

import pytest
from helpers.engine.toy_run import write_config
from mmengine.config import Config

from mmssprl.config import schedule_checks
from mmssprl.engine.launch import launch, prepare_train_config

EPOCH_STEPS = 10


@pytest.fixture
def warned(monkeypatch):
    lines = []
    monkeypatch.setattr(schedule_checks, "print_log", lambda text, **_: lines.append(text))
    return lines


def check(scheduler, loop):
    cfg = Config({"param_scheduler": [scheduler], "train_cfg": loop})
    schedule_checks.warn_of_schedule(cfg, EPOCH_STEPS)


@pytest.mark.parametrize(
    ("scheduler", "loop", "remedies"),
    [
        ({"T_max": 4, "begin": 1}, {"max_epochs": 5}, []),
        ({"T_max": 5, "begin": 1}, {"max_epochs": 5}, ["T_max to 4 "]),
        ({"T_max": 9, "by_epoch": False}, {"max_iters": 100}, ["train_cfg.max_iters=100"]),
        ({"T_max": 5, "by_epoch": False}, {"max_epochs": 5}, ["T_max to 50 "]),
        ({"T_max": 50, "by_epoch": False}, {"max_epochs": 5}, []),
        ({"type": "MultiStepLR", "T_max": 9}, {"max_epochs": 5}, []),
    ],
)
def test_a_cosine_ends_with_the_training(warned, scheduler, loop, remedies):
    check({"type": "CosineAnnealingLR", **scheduler}, loop)
    assert all(remedy in text for remedy, text in zip(remedies, warned, strict=True))


@pytest.mark.parametrize("kind", ["LinearLR", "PolyLR"])
@pytest.mark.parametrize(
    ("scheduler", "loop", "remedies"),
    [
        ({"end": 5}, {"max_epochs": 5}, []),
        ({"end": 6}, {"max_epochs": 5}, ["end to at most 5 "]),
        ({}, {"max_epochs": 5}, []),
        ({"by_epoch": False}, {"max_iters": 100}, []),
        ({"end": 51, "by_epoch": False}, {"max_epochs": 5}, ["50 iters (train_cfg.max_epochs=5)"]),
        ({"end": 50, "by_epoch": False}, {"max_epochs": 5}, []),
    ],
)
def test_a_warm_up_ends_before_the_training(warned, kind, scheduler, loop, remedies):
    check({"type": kind, **scheduler}, loop)
    assert all(remedy in text for remedy, text in zip(remedies, warned, strict=True))


def test_epochs_of_a_schedule_never_pass_in_a_loop_of_iterations(warned):
    check({"type": "MultiStepLR", "milestones": [8, 11]}, {"max_iters": 100})
    assert "its rate never changes; set by_epoch=False" in warned[0]


def test_a_rate_that_follows_the_scores_changes_in_any_loop(warned):
    check({"type": "ReduceOnPlateauLR", "monitor": "loss"}, {"max_iters": 100})
    assert not warned


def test_epochs_that_become_iterations_do(warned):
    scheduler = {"type": "MultiStepLR", "milestones": [8], "convert_to_iter_based": True}
    check(scheduler, {"max_iters": 100})
    assert not warned


@pytest.mark.parametrize(
    ("scaling", "num_warnings"),
    [
        ({"base_batch_size": 128}, 1),
        ({"base_batch_size": 128, "enable": True}, 0),
        ({"base_batch_size": 512}, 0),
        (None, 0),
    ],
)
def test_a_rate_for_another_batch_is_a_warning(warned, scaling, num_warnings):
    schedule_checks.warn_of_batch(Config({"auto_scale_lr": scaling}), 512)
    assert len(warned) == num_warnings
    assert all("has 512 samples" in line and "=128; scale it" in line for line in warned)


def test_a_rate_that_is_scaled_to_a_part_of_a_step_is_a_warning(warned):
    cfg = Config({"auto_scale_lr": {"base_batch_size": 256, "enable": True}})
    schedule_checks.warn_of_batch(cfg, 512, parts=1)
    assert not warned
    schedule_checks.warn_of_batch(cfg, 512, parts=4)
    [line] = warned
    assert "to 128 samples, but a step has 512" in line
    assert "enable=False and the rate for 512 samples" in line


@pytest.mark.parametrize(
    ("model", "num_steps", "remedies"),
    [
        ({"type": "MoCo", "momentum": 0.001}, 1000, ["momentum=0.999"]),  # as mmpretrain's
        ({"type": "BYOL", "base_momentum": 0.01}, 1000, ["base_momentum=0.99"]),
        ({"type": "MoCo", "momentum": 0.999}, 1000, []),
        ({"type": "MoCo", "momentum": 0.1}, 20, []),  # averages 7 % of the steps
        ({"type": "MultiLabelClassifier", "momentum": 0.001}, 1000, []),
    ],
)
def test_the_other_share_of_an_average_is_a_warning(warned, model, num_steps, remedies):
    schedule_checks.warn_of_momentum(Config({"model": model}), num_steps)
    assert all(f"set model.{each} " in line for each, line in zip(remedies, warned, strict=True))


@pytest.mark.parametrize(
    ("num_gpus", "queue_length", "num_processes", "num_warnings"),
    [(2, 960, 1, 1), (2, 960, 2, 0), (2, 0, 1, 0), (None, 960, 1, 0)],
)
def test_queues_for_other_processes_are_a_warning(
    warned, num_gpus, queue_length, num_processes, num_warnings
):
    head = {"type": "SinkhornHead", "queue_length": queue_length}
    cfg = Config({"num_gpus": num_gpus, "model": {"type": "SSPRL", "head": head}})
    schedule_checks.warn_of_queue(cfg, num_processes)
    assert len(warned) == num_warnings
    assert all("has 960 rows instead of 1,920" in line for line in warned)


@pytest.mark.parametrize(
    ("model", "what"),
    [
        ({"head": {"queue_start_epoch": 80, "queue_length": 960}}, ["queues are never used"]),
        ({"head": {"queue_start_epoch": 80, "queue_length": 0}}, []),
        ({"head": {"queue_start_epoch": 49, "queue_length": 960}}, []),
        ({"head": {"freeze_epochs": 50}}, ["model.head.freeze_epochs=50 .* never learn"]),
        ({"type": "DenseCL", "dense_start_epoch": 50}, ["dense term never counts; lower"]),
        ({"type": "MultiLabelClassifier", "dense_start_epoch": 50}, []),
    ],
)
def test_an_epoch_that_never_comes_is_a_warning(warned, model, what):
    cfg = Config({"model": {"type": "SSPRL", **model}, "train_cfg": {"max_epochs": 50}})
    schedule_checks.warn_of_late_epochs(cfg)
    assert len(warned) == len(what)
    assert all(re.search(words, line) for words, line in zip(what, warned, strict=True))


@pytest.mark.parametrize(
    ("backbone", "more", "num_warnings"),
    [
        ({"frozen_stages": 0}, {}, 1),
        ({"norm_eval": True}, {"custom_hooks": [{"type": "PretrainHook"}]}, 1),
        ({"frozen_stages": -1, "norm_eval": False}, {}, 0),
        ({"frozen_stages": 1, "init_cfg": {"type": "Pretrained"}}, {}, 0),
        ({"frozen_stages": 1, "init_cfg": {"type": "Kaiming"}}, {}, 1),
        ({"frozen_stages": 1}, {"load_from": "a.pth"}, 0),
        ({"frozen_stages": 1}, {"custom_hooks": [{"type": "mmssprl.InitialWeightsHook"}]}, 0),
    ],
)
def test_random_weights_that_are_kept_are_a_warning(warned, backbone, more, num_warnings):
    cfg = Config({"model": {"type": "SSPRL", "backbone": backbone}, **more})
    schedule_checks.warn_of_frozen(cfg)
    assert len(warned) == num_warnings


def test_another_number_of_processes_without_its_queues_is_a_warning():
    head = {"queue_length": 960, "patch_queue_length": 2496}
    cfg = Config({"num_gpus": 2, "model": {"head": head}})
    queues = {"model.head.queue_length": 1920, "model.head.patch_queue_length": 4992}
    words = "for 2 processes by the config; set "
    words += " ".join(f"{key}={value}" for key, value in queues.items())
    line = schedule_checks.line_of_queues(cfg, {"num_gpus": 1})
    assert f"num_gpus=1 leaves the queues as they are, {words} " in line
    for options in ({**queues, "num_gpus": 1}, {"num_gpus": 2}, {}):
        assert schedule_checks.line_of_queues(cfg, options) == ""


def test_a_training_warns(tmp_path, warned):
    text = 'param_scheduler = dict(type="CosineAnnealingLR", T_max=3)\n'
    text += "auto_scale_lr = dict(base_batch_size=64)\n"
    config = write_config(tmp_path, text)
    launch(prepare_train_config(config, work_dir=tmp_path / "run"), "train")
    schedule, batch = warned
    assert "T_max=3" in schedule
    assert "a step has 2 samples" in batch
