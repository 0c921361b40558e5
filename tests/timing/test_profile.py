import itertools
from types import SimpleNamespace

import helpers.engine.toy_run  # noqa: F401  # registers ToyData
import pytest
import torch
from helpers.datasets.noise_images import write_noise
from helpers.system.no_gpu import hidden_gpu
from helpers.timing.profiles import CONFIG, PROFILE, SETTING
from mmengine.config import Config

from mmssprl.config.shipped import shipped
from mmssprl.errors import UserError
from mmssprl.functional import phases
from mmssprl.timing import profile_training, training
from mmssprl.timing.profile import choose_batch_size
from mmssprl.timing.result import PHASES, typical
from mmssprl.timing.stopwatch import PhaseClock
from mmssprl.timing.training import MeasuringHook

LINEAR = shipped("configs/benchmarks/classification/linear_resnet18_scenes.py")
BYOL = shipped("configs/baselines/byol_resnet18_scenes.py")
TOY_DATA = {"_delete_": True, "type": "ToyData"}


def test_the_middle_half_of_whole_steps_counts_and_phases_of_the_model_s_own_follow():
    # By their sums 2, 3, 4, 5, 6, 9, 11 and 100.
    steps = [{"rest": 10**6 * n, "guess": 10**7 * (n == 1)} for n in (9, 2, 4, 100, 3, 5, 1, 6)]
    assert typical(steps)["rest"] == (4 + 5 + 6 + 9) / 4
    assert typical(steps[:1])["rest"] == 9
    assert list(typical(steps)) == [*PHASES, "guess"]


def test_on_a_device_as_many_steps_follow_that_wait_for_it_once(monkeypatch):
    for name in ("reset_peak_bytes", "peak_bytes"):
        monkeypatch.setattr(training, name, lambda device: 7)
    monkeypatch.setattr(MeasuringHook, "_in_time", lambda hook, deadline: True)
    trained, waits = [], []
    hook = MeasuringHook(None, most=4, max_seconds=9)
    monkeypatch.setattr(hook, "_setting", lambda images: SETTING)
    monkeypatch.setattr(training, "checkpoint_bytes", lambda runner, num_ranks: 7)
    hook.device, hook.clock, hook.loader_ms = "cuda", PhaseClock(), PROFILE.loader_ms
    hook.loader = SimpleNamespace(batch_size=1)
    hook.synchronize = lambda: waits.append(len(trained))
    hook.model = SimpleNamespace(backbone=torch.nn.Identity())
    hook.runner = SimpleNamespace(model=torch.nn.Identity())
    numbers = ({"inputs": [torch.tensor([number])]} for number in itertools.count())
    for batch in hook.measured_steps(numbers):
        hook.runner.model(batch)
        trained.append(int(batch["inputs"][0]))
    assert trained == list(range(1 + 2 + 4 + 4))
    assert waits == [11]
    assert hook.profile.num_steps == 4
    assert 0 < hook.profile.free_step_ms < sum(hook.profile.step_ms.values()) + 1


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return write_noise(tmp_path_factory.mktemp("images"))


class TestProfileTraining:
    @pytest.fixture(autouse=True, scope="class")
    def on_cpu(self):
        """Two images a step, where a GPU takes the config's 32."""
        with hidden_gpu():
            yield

    def test_measures_every_phase_and_describes_the_setting(self, images, tmp_path, monkeypatch):
        lines = []
        monkeypatch.chdir(tmp_path)
        random = torch.get_rng_state()
        profile = profile_training(CONFIG, data=images, steps=5, log=lines.append)
        assert torch.equal(torch.get_rng_state(), random)
        assert list(tmp_path.iterdir()) == []
        assert min(profile.loader_ms.values()) > 0
        assert list(profile.step_ms) == list(PHASES)
        zero = [name for name, ms in profile.step_ms.items() if ms <= 0]
        assert zero == [phases.COMMUNICATION]
        assert profile.free_step_ms == sum(profile.step_ms.values())
        assert profile.num_steps == 5
        assert profile.peak_bytes > profile.activation_bytes > 0
        setting = profile.setting
        assert setting.config == str(CONFIG)
        assert setting.num_images == 10
        assert (setting.batch_size, setting.config_batch_size) == (2, 32)
        assert (setting.num_processes, setting.num_workers) == (1, 0)
        assert (setting.device, setting.precision) == ("cpu", "float32")
        assert "2 images a step" in lines[0]
        assert "5 to measure, in 160 s" in lines[-1]

    def test_stops_in_time(self, images):
        lines = []
        options = {"cfg_options": {"train_cfg.max_epochs": 1}, "batch_size": 5, "time_limit_s": 0}
        profile = profile_training(BYOL, data=images, steps=50, log=lines.append, **options)
        # Four steps were taken with those to warm up, and the training has two.
        assert (profile.num_steps, profile.setting.batch_size) == (1, 5)
        assert profile.setting.max_epochs == 1
        assert "only 1 of 50 steps" in lines[-1]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"steps": 0}, "steps .* 0"),
            ({"batch_size": 0}, "batch_size .* 0"),
            ({"batch_size": 11}, "10 samples .* batch of 11"),
            ({"batch_size": 3, "cfg_options": {"model.num_chunks": 2}}, "num_chunks.* 3 and 2"),
            ({"amp": True}, "leave amp out"),
            ({"data": "."}, "images"),
            ({"data": "nowhere"}, "nowhere.* data"),
            ({"data": None, "cfg_options": {"train_dataloader.dataset": TOY_DATA}}, "ToyData"),
            ({"config": LINEAR}, "pre-training config .*MultiLabel"),
        ],
    )
    def test_mistakes(self, images, tmp_path, monkeypatch, arguments, message):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(UserError, match=message):
            profile_training(**{"config": CONFIG, "data": images, **arguments})


@pytest.mark.parametrize(
    ("device", "batch_size", "model", "chosen"),
    [
        ("cpu", 64, {}, 2),
        ("cpu", 64, {"num_chunks": 8}, 8),
        # Two images in each of four groups of BatchNorm.
        ("cpu", 64, {"type": "mmssprl.MoCo", "bn_groups": 4}, 8),
        ("cpu", 1, {}, 1),
        ("cuda", 64, {}, 64),
    ],
)
def test_a_cpu_takes_few_images_a_step(device, batch_size, model, chosen, monkeypatch):
    monkeypatch.setattr("mmssprl.timing.profile.get_device", lambda: device)
    cfg = Config({"model": model, "train_dataloader": {"batch_size": batch_size}})
    assert choose_batch_size(cfg, None) == chosen
    assert choose_batch_size(cfg, 5) == 5
