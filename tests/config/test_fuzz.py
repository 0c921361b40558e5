"""Any value in any place of a shipped config trains, or is refused in one line."""

import copy
import itertools
import re

import pytest
from helpers.datasets.noise_images import images  # noqa: F401  (fixture)
from helpers.package.checkout import ROOT
from mmengine.config import Config
from mmengine.hooks import Hook

from mmssprl.config.keys import walk_used
from mmssprl.config.reading import read_config_file
from mmssprl.config.run_checks import check_config
from mmssprl.engine.launch import launch, prepare_train_config
from mmssprl.errors import UserError
from mmssprl.system.stopping import StoppedError

CONFIG = "configs/ssprl/ssprl_resnet18_scenes.py"
VALUES = (0, "x", None, [], {}, -1, 1.5)
UNBOUNDED = re.compile(r"batch_size|channels|queue_length|hid_|num_.*prototypes")
"""Sizes of what is built: -1 and 1.5 are tried, and no larger numbers."""


class StopAfterAStep(Hook):
    def after_train_iter(self, *args, **kwargs):
        raise StoppedError(0)


def keys():
    return [key for key, _ in walk_used(read_config_file(ROOT / CONFIG))]


def start(folder, name, options):
    cfg = prepare_train_config(
        ROOT / CONFIG, work_dir=folder / name, cfg_options=copy.deepcopy(options)
    )
    launch(cfg, "train", hooks=[StopAfterAStep()], keep_record=False)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_every_value_trains_or_is_refused_in_one_line(part, images, tmp_path, on_cpu):  # noqa: F811
    data = {"train_dataloader.dataset.data_root": str(images), "train_dataloader.batch_size": 2}
    places = list(enumerate(itertools.product(keys(), VALUES)))[part::8]
    assert len(places) > 100
    faults = []
    for number, (key, value) in places:
        kept = {k: v for k, v in data.items() if not k.startswith(key)}
        options = {**kept, key: value, "experiment_name": f"fuzz_{number}"}
        try:
            start(tmp_path, str(number), options)
        except StoppedError:
            continue
        except UserError as error:
            if "\n" in str(error) or len(str(error)) < 20:
                faults.append(f"{key}={value!r}: {error}")
        except Exception as error:
            faults.append(f"{key}={value!r}: {type(error).__name__}: {error}")
    assert faults == []


IN_A_FILE = {
    "custom_hooks": (0, "x", [0], [{"type": "PretrainHook"}, 0], [{}], [None], [[]]),
    "model": (0, None, [], "SSPRL", {"backbone": 0}, {"backbone": {}}, {"backbone": [1]}),
    "param_scheduler": (1, [1], [{}], "cosine"),
    "train_dataloader": (1, [], "x"),
    "optim_wrapper": (1, [], "x"),
    "load_from": (1, [], {}),
    "default_hooks": (1, [], "x"),
    "randomness": (1, [], "x"),
}
PLACES = []
for name, values in IN_A_FILE.items():
    PLACES += [(name, value) for value in values]


@pytest.mark.parametrize(("key", "value"), PLACES, ids=str)
def test_a_value_of_another_kind_is_named_by_its_key(key, value):
    cfg = Config(read_config_file(ROOT / CONFIG).to_dict())
    cfg[key] = value
    match = rf"^config: {key}[\w.]*: it must be a .*, but is .*; replace( or remove)? it\.$"
    with pytest.raises(UserError, match=match) as caught:
        check_config(cfg, ("train",))
    assert "\n" not in str(caught.value)
