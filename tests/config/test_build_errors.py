import pytest
import torch
from helpers.engine.toy_run import write_config
from mmengine.config import Config

from mmssprl.config.build_errors import explain_build_errors
from mmssprl.engine.launch import launch, prepare_train_config
from mmssprl.errors import UserError, UserTypeError
from mmssprl.registry import MODELS

BUILT = [
    ("optim_wrapper.optimizer.lr", -1.0, "optim_wrapper.optimizer: .*-1"),
    ("train_dataloader.timeout", -1, "timeout"),
    ("model.nonsense", 1, "model: .*'nonsense'"),
    ("model.type", "ToyModle", "model: KeyError: ToyModle"),
    # What no registry builds has no key.
    ("randomness.seed", -1, "[Ss]eed"),
    ("custom_hooks.0.priority", "a", "KeyError: A"),
]


def start(folder, **options):
    # Runs of one name that start in one second would share their log.
    options["experiment_name"] = folder.name
    config = write_config(folder)
    launch(prepare_train_config(config, work_dir=folder / "run", cfg_options=options), "train")


@pytest.mark.parametrize(("key", "value", "message"), BUILT)
def test_a_value_that_a_part_does_not_take(tmp_path, key, value, message):
    with pytest.raises(
        UserError, match=rf"toy.py: {message}.*; change .* in the file or by --cfg-options"
    ) as caught:
        start(tmp_path, **{key: value})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("place", "kind", "text", "workers"),
    [
        ("ToyData.__getitem__", ValueError, "no item", 1),
        ("ToyModel.forward", TypeError, "unexpected keyword argument 'lr'", 0),
        # mmengine adds the name of the hook to its TypeError.
        ("ToyReport.before_train", UserTypeError, "it must be so, but got 3", 0),
    ],
)
def test_what_parts_raise_while_they_work(tmp_path, monkeypatch, place, kind, text, workers):
    def broken(*args, **kwargs):
        raise kind(text)

    monkeypatch.setattr(f"helpers.engine.toy_run.{place}", broken)
    with pytest.raises(
        UserError, match=rf"^{tmp_path}/toy.py: {text}; change the value in the file"
    ):
        start(tmp_path, **{"train_dataloader.num_workers": workers})


@MODELS.register_module(force=True)
class Wide(torch.nn.Module):
    def __init__(self, width, depth=1):
        raise ValueError(f"no width {width}")


def test_the_innermost_part_is_named():
    cfg = Config({"model": {"type": "Wide", "width": 1, "neck": {"type": "Wide", "width": 2}}})
    neck = {**cfg.model.neck, "depth": 3}  # a builder added a field
    for part, said in ((neck, "model.neck: no width 2"), ({**neck, "width": 4}, "no width 4")):
        with pytest.raises(UserError, match=f"config: {said}"), explain_build_errors(cfg):
            MODELS.build(part)


@pytest.mark.parametrize(
    ("step", "error"), [(1, TypeError("so")), (0, torch.OutOfMemoryError("so"))]
)
def test_what_is_no_mistake_in_the_config_keeps_its_class(tmp_path, monkeypatch, step, error):
    def broken(self, runner, batch_idx, **kwargs):
        if batch_idx == step:
            raise error

    monkeypatch.setattr("helpers.engine.toy_run.ToyReport.before_train_iter", broken, raising=False)
    with pytest.raises(type(error)) as caught:
        start(tmp_path)
    assert not isinstance(caught.value, UserError)
