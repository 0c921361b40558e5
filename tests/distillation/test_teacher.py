"""Teachers of all kinds, their components, and what is no teacher."""

import numpy as np
import pytest
import torch
from helpers.distillation.small_maps import OWN
from mmengine.config import Config
from torch import nn

from mmssprl.datasets.transforms.teacher_crop import grid_of
from mmssprl.distillation.teacher import Teacher, load_teacher
from mmssprl.distillation.teacher_pass import principal_components, run_teacher
from mmssprl.errors import UserError, UserValueError
from mmssprl.features.backbone import FeatureBackbone
from mmssprl.models import TimmBackbone
from mmssprl.pixels import Pixels
from mmssprl.weights import build_backbone, write_description


def test_components_equal_a_singular_value_decomposition():
    cells = np.random.default_rng(0).normal(size=(200, 6)) * [9, 5, 3, 2, 1, 0.5] + 4
    mean, components, share = principal_components(cells, 3)
    centred = cells - cells.mean(axis=0)
    _, sigma, vectors = np.linalg.svd(centred, full_matrices=False)

    np.testing.assert_allclose(mean, cells.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(components @ components.T, np.eye(3), atol=1e-6)
    np.testing.assert_allclose(np.abs((components * vectors[:3]).sum(axis=1)), 1, atol=1e-6)
    assert (components[np.arange(3), np.abs(components).argmax(axis=1)] > 0).all()
    assert share == pytest.approx((sigma[:3] ** 2).sum() / (sigma**2).sum())


def test_components_beyond_the_channels_are_zeros():
    _, components, share = principal_components(np.random.default_rng(0).normal(size=(200, 6)), 8)
    assert components[:6].any(axis=1).all()
    assert (components[6:] == 0).all()
    assert share == pytest.approx(1)


@pytest.mark.parametrize("cells", [np.full((9, 3), 7.0), np.full((9, 3), np.nan)])
def test_maps_that_do_not_vary_are_refused(cells):
    with pytest.raises(UserValueError, match="finite and differ from place to place"):
        principal_components(cells, 2)


def test_a_grid_has_the_aspect_of_its_image():
    sizes = ((224, 224), (128, 192), (10, 1000), (9, 1))
    assert [grid_of(*size, 49) for size in sizes] == [(7, 7), (6, 8), (1, 49), (18, 2)]


@pytest.mark.parametrize(
    ("name", "stride"),
    [
        ("resnet10t", 32),
        ("deit_tiny_distilled_patch16_224", 16),  # two tokens before the map
        ("swin_tiny_patch4_window7_224", 32),  # channels last
    ],
)
def test_networks_of_timm_give_maps(name, stride, tmp_path):
    torch.manual_seed(0)
    network = TimmBackbone(name, "featmap").eval()
    torch.save(network.state_dict(), tmp_path / "w.pth")
    found = load_teacher(f"timm/{name}:{tmp_path / 'w.pth'}")
    assert found.stride == stride
    images = torch.randint(0, 256, (1, 3, 224, 224), dtype=torch.uint8)
    cfg = network.inner.pretrained_cfg
    mean, std = (torch.tensor(cfg[key])[:, None, None] for key in ("mean", "std"))
    with torch.no_grad():
        expected = network.inner.forward_features((images / 255 - mean) / std)
    if expected.dim() == 3:  # (1, tokens, C): the last ones are the map, by rows
        side = 224 // stride
        expected = expected[:, -(side**2) :].transpose(1, 2).unflatten(2, (side, side))
    if name.startswith("swin"):
        expected = expected.movedim(3, 1)
    torch.testing.assert_close(found(images), expected, atol=2e-4, rtol=1e-4)


def test_a_file_of_ours_is_a_teacher_by_its_description(tmp_path):
    backbone = {"type": "VisionTransformer", "arch": "deit-tiny", "img_size": 224}
    backbone |= {"patch_size": 16, "out_type": "avg_featmap"}
    cfg = Config({"model": {"backbone": backbone, "layout": {"image_px": 224, "levels": []}}})
    torch.manual_seed(0)
    torch.save(build_backbone(cfg).state_dict(), tmp_path / "vit.pth")
    write_description(tmp_path / "vit.pth", cfg)
    found = load_teacher(str(tmp_path / "vit.pth"))
    assert found.stride == 16
    assert found(torch.zeros(1, 3, 224, 224, dtype=torch.uint8)).shape == (1, 192, 14, 14)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (f"{OWN}:vector", "a feature map, but this one gives a vector of 5 features"),
        (f"{OWN}:wrapped", r"must take RGB images of any size, but .*:wrapped raises RuntimeE"),
        (f"{OWN}:nothing", "a NoneType"),
        ("w.pth", "^teacher must be .*, but there is no w.pth; correct the path"),
    ],
)
def test_what_is_no_teacher_is_refused(weights, message):
    with pytest.raises(UserError, match=message):
        load_teacher(weights)


@pytest.mark.parametrize(
    ("network", "cells"),
    [
        (nn.Conv2d(3, 8, 32, 32, padding=16), "8 x 15"),  # adds half a cell at each border
        (nn.Conv2d(3, 8, 64, 32), "6 x 13"),  # leaves out half a cell
        (nn.Sequential(nn.Conv2d(3, 8, 1), nn.AdaptiveAvgPool2d(7)), "7 x 7"),
        (nn.Conv2d(3, 8, 16, (16, 32)), "14 x 14"),  # its cells are not square
        (nn.ConvTranspose2d(3, 8, 2, 2), "448 x 896"),
    ],
)
def test_a_map_of_another_grid_than_its_image_is_refused(network, cells):
    with pytest.raises(UserValueError, match=f"the map of net has {cells} cells for 224 x 448 px"):
        Teacher("net", FeatureBackbone(network))


class CropsSmallImages(nn.Module):
    """A network whose grid is right at 224 px only."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Conv2d(3, 8, 16, 16)

    def forward(self, images):
        found = self.inner(images)
        return found if images.shape[2] >= 224 else found[..., 1:, 1:]


def test_a_grid_that_is_wrong_at_the_size_of_the_images_is_refused_in_the_pass():
    found = Teacher("net", FeatureBackbone(CropsSmallImages()))
    image = torch.zeros(3, 64, 96, dtype=torch.uint8)
    with pytest.raises(UserValueError, match="the map of net has 3 x 5 cells for 64 x 96 px"):
        run_teacher(found, [(0, image, np.zeros(5))])


def test_a_teacher_of_images_that_are_not_8_bit_rgb_is_refused():
    network = FeatureBackbone(nn.Conv2d(3, 8, 16, 16), pixels=Pixels(3, "uint16"))
    with pytest.raises(UserValueError, match="8-bit RGB images, but net takes 3 channels of uint1"):
        Teacher("net", network)
