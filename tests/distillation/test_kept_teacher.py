"""Kept maps are used only with the teacher that gave them, and hold what float16 can hold."""

import numpy as np
import pytest
import torch
from helpers.distillation.small_maps import keep, read, state_of, write_state
from helpers.models import own_nets

from mmssprl.distillation import teacher_pass
from mmssprl.distillation.teacher import Teacher
from mmssprl.distillation.teacher_pass import COMPONENTS, pass_order
from mmssprl.errors import UserFileExistsError, UserValueError
from mmssprl.features.backbone import FeatureBackbone

NAME = "timm/resnet18.a1_in1k:w.pth"
MEAN = (100.0,) * 3
STD = (50.0,) * 3


class Swapped(own_nets.Net):
    def forward(self, images):
        return super().forward(images.flip(1))


def network(kind=own_nets.Net, factor=1.0, **options):
    """A network whose last layer is multiplied by a factor; all channels are normalised alike."""
    torch.manual_seed(0)
    backbone = kind("maps").eval().requires_grad_(False)
    backbone.backbone.weight.mul_(factor)
    backbone.backbone.bias.mul_(factor)
    return FeatureBackbone(backbone, **{"mean": MEAN, "std": STD, **options})


@pytest.mark.parametrize(
    ("name", "options", "differs"),
    [
        ("timm/resnet18.a2_in1k:w.pth", {}, "network"),
        (NAME, {"mean": (*MEAN[:2], 100.5)}, "mean"),
        (NAME, {"std": (*STD[:2], 50.5)}, "deviation"),
        (NAME, {"factor": 2}, "weights"),
        (NAME, {"kind": Swapped}, "the answer to a fixed image"),
    ],
)
def test_maps_of_another_teacher_are_refused(name, options, differs, images, tmp_path):
    keep(tmp_path, Teacher(NAME, network()), images)
    keep(tmp_path, Teacher(NAME.replace("w.pth", "moved/w.pth"), network()), images)
    message = f"must be of these images and this teacher, but differs in {differs}; delete"
    with pytest.raises(UserFileExistsError, match=message):
        keep(tmp_path, Teacher(name, network(**options)), images)


def test_an_answer_may_differ_as_much_as_processors_do(kept, teacher, images):
    answer = np.array(teacher.answer)
    assert answer.std() > 0
    write_state(kept, answer=(answer * 1.001).tolist())
    keep(kept, teacher, images)
    write_state(kept, answer=(answer * 1.1).tolist())
    with pytest.raises(UserFileExistsError, match="differs in the answer to a fixed image"):
        keep(kept, teacher, images)


@pytest.mark.parametrize("factor", [2.0**30, 2.0**-30])
def test_maps_of_any_range_keep_their_directions(factor, images, tmp_path):
    keep(tmp_path / "usual", Teacher("net", network(factor=64)), images)
    keep(tmp_path / "scaled", Teacher("net", network(factor=factor)), images)
    with np.load(tmp_path / "usual" / COMPONENTS) as kept:
        np.testing.assert_allclose(np.linalg.norm(kept["components"], axis=1), 1, atol=1e-5)
    usual, found = (read(tmp_path / name).astype(float) for name in ("usual", "scaled"))
    ratio = 2.0 ** np.round(np.log2(np.abs(found).max() / np.abs(usual).max()))
    assert 0.5 <= np.abs(found).max() <= 2
    np.testing.assert_allclose(found / ratio, usual, atol=2e-3 * np.abs(usual).max())


@pytest.mark.parametrize("value", [1e6, np.inf, np.nan])
@pytest.mark.filterwarnings("error")
def test_a_map_far_beyond_the_first_ones_is_refused(value, stopped, teacher, images, monkeypatch):
    run = teacher_pass.run_teacher
    monkeypatch.setattr(
        teacher_pass, "run_teacher", lambda *given: {k: v + value for k, v in run(*given).items()}
    )
    name = sorted(images.iterdir())[pass_order(6)[3]].name
    with pytest.raises(UserValueError, match=f"at most 65,504 .* the map of .*/{name} is not"):
        keep(stopped, teacher, images)
    assert state_of(stopped)["done"] == 3
