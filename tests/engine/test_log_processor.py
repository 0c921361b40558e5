from unittest import mock

import pytest
from helpers.engine.logs import read_log
from helpers.engine.pretrain_runner import make_runner
from mmengine.device import get_device
from mmengine.runner import Runner

from mmssprl.engine import log_processor
from mmssprl.engine.log_processor import PretrainLogProcessor
from mmssprl.errors import UserValueError
from mmssprl.models import SSPRL
from mmssprl.system.environment import peak_resident_mib


def train(images, work_dir, **overrides):
    options = {"train_dataloader.batch_size": 2, "default_hooks.logger.interval": 2}
    options["log_processor"] = {"type": "PretrainLogProcessor", "window_size": 10}
    runner = make_runner(images, work_dir, **options | overrides)
    runner.train()
    return runner, read_log(work_dir)


NUM_RANKS = 3


def times_of(runner, name):
    """The times of all steps of a run."""
    return runner.message_hub.get_scalar(f"train/{name}").data[0]


@pytest.fixture(scope="module")
def whole(images, tmp_path_factory):
    """A run of two epochs of five steps, with a line every two steps of an epoch."""
    folder = tmp_path_factory.mktemp("whole")
    with mock.patch.object(Runner, "world_size", NUM_RANKS):
        return folder, *train(images, folder)


@pytest.mark.parametrize("name", ["time", "data_time"])
def test_times_are_means_since_the_last_line(whole, name):
    _, runner, lines = whole
    assert [line["iter"] for line in lines] == [2, 4, 7, 9]
    times = times_of(runner, name)
    means = [times[:2].mean(), times[2:4].mean(), times[4:7].mean(), times[7:9].mean()]
    assert [line[name] for line in lines] == pytest.approx(means)


def test_images_per_second_count_all_ranks(whole):
    _, _, lines = whole
    for line in lines:
        assert line["images_per_second"] == pytest.approx(2 * NUM_RANKS / line["time"])


def test_a_line_has_the_memory_of_a_process_on_the_cpu(whole):
    _, _, lines = whole
    for line in lines:
        assert get_device() != "cpu" or 100 < line["memory"] <= peak_resident_mib()


def test_losses_keep_mmengine_s_window_of_ten_steps(whole):
    _, runner, lines = whole
    losses = runner.message_hub.get_scalar("train/loss").data[0]
    assert lines[-1]["loss"] == pytest.approx(losses[:9].mean())


@pytest.fixture
def endless(whole, monkeypatch):
    """The run of ``whole``, as if it had more steps."""
    _, runner, _ = whole
    monkeypatch.setattr(type(runner), "max_iters", 10_000)
    return runner


def test_the_console_has_the_last_line(endless, monkeypatch):
    """The line after the next steps would come after the end."""
    times = iter([0.0, 61.0, 62.0, 63.0])
    monkeypatch.setattr(log_processor.time, "monotonic", lambda: next(times))
    processor = PretrainLogProcessor(window_size=10)
    shown = []
    for step, last in ((4, 10_000), (9, 10_000), (13, 10_000), (17, 20)):
        monkeypatch.setattr(type(endless), "iter", step)
        monkeypatch.setattr(type(endless), "max_iters", last)
        _, line = processor.get_log_after_iter(endless, step % 5, "train")
        shown.append(line.console is not None)
    assert shown == [True, True, False, True]


def test_the_console_has_fewer_lines_after_the_first_minute(endless, monkeypatch):
    runner = endless
    processor = PretrainLogProcessor(window_size=10)
    now_s = 50.0
    monkeypatch.setattr(log_processor.time, "monotonic", lambda: now_s)
    shown_s = []
    for now_s in (50, 51, 109, 110, 115, 116, 121, 170, 180, 184, 1050, 1149, 1162):
        _, line = processor.get_log_after_iter(runner, 4, "train")
        if line.console is not None:
            shown_s.append(now_s - 50)
    assert shown_s == [0, 1, 59, 66, 120, 134, 1000, 1112]  # then a tenth of the time so far


def test_a_resumed_run_counts_its_own_steps(images, whole, tmp_path):
    of_epoch_1 = {"resume": True, "load_from": str(whole[0] / "epoch_1.pth")}
    runner, lines = train(images, tmp_path, **of_epoch_1)
    assert [line["iter"] for line in lines] == [7, 9]
    assert lines[0]["time"] == pytest.approx(times_of(runner, "time")[5:7].mean())


def test_other_names_of_losses_are_refused():
    with pytest.raises(UserValueError, match="^log_with_hierarchy must be False"):
        PretrainLogProcessor(log_with_hierarchy=True)


def one_weight_since_step_3(terms):
    return {name: term._replace(since=3) for name, term in terms.items()}


def test_a_relative_loss_is_of_steps_with_one_weight(images, tmp_path, monkeypatch):
    terms = SSPRL.loss_terms
    monkeypatch.setattr(SSPRL, "loss_terms", lambda self: one_weight_since_step_3(terms(self)))
    _, lines = train(images, tmp_path, **{"log_processor.window_size": 5})
    # The window of step 7 still holds step 3, which had another weight.
    assert [line["iter"] for line in lines if "relative_pyramid_s0" in line] == [9]


@pytest.fixture(scope="module")
def at_rest(images, tmp_path_factory):
    """A run of four epochs with a learning rate of 0: runner, warnings, and lines of the log."""
    folder = tmp_path_factory.mktemp("at_rest")
    hooks = [{"type": "PretrainHook"}, {"type": "MonitorHook"}]
    options = {"custom_hooks": hooks, "log_processor": {"type": "PretrainLogProcessor"}}
    options["optim_wrapper.optimizer"] = {"type": "SGD", "lr": 0.0, "_delete_": True}
    runner = make_runner(images, folder, max_epochs=4, param_scheduler=[], **options)
    with mock.patch.object(runner.logger, "warning") as warning:
        runner.train()
    return runner, [call.args[0] for call in warning.mock_calls], read_log(folder)


def test_a_trouble_is_one_warning_in_one_line(at_rest):
    _, warnings, _ = at_rest
    (text,) = [text for text in warnings if "docs/troubleshooting.md" in text]
    assert text.startswith("the learning rate has been 0 for 1 epoch")
    assert "\n" not in text


def test_a_line_says_how_much_is_done(at_rest):
    _, _, lines = at_rest
    assert [line["epochs_done"] for line in lines] == [n / 2 for n in range(1, 9)]
    assert [line["progress"] for line in lines] == [n / 8 for n in range(1, 9)]
    assert [line["eta"] > 0 for line in lines] == [True] * 7 + [False]


def test_hooks_see_the_latest_line(at_rest):
    runner, _, lines = at_rest
    latest = runner.log_processor.latest
    assert latest["step"] == lines[-1]["step"] == 8
    assert latest["relative_pyramid_s0"] == lines[-1]["relative_pyramid_s0"]


def test_relative_losses_are_shares_of_chance(at_rest):
    runner, _, lines = at_rest
    line = lines[-1]
    logged = {name: term for name, term in runner.model.loss_terms().items() if name in line}
    assert len(logged) == 3
    for name, term in logged.items():
        relative = line[name.replace("loss", "relative")]
        assert relative == pytest.approx(line[name] / term.weight / term.chance)
