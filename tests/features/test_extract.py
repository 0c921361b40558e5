import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torchvision.transforms.v2 import functional

import mmssprl
from mmssprl.errors import UserTypeError, UserValueError
from mmssprl.features import FeatureBackbone
from mmssprl.features.crops import Crops
from mmssprl.features.extract import FeatureOptions, Images, extract, joined
from mmssprl.models import ModuleBackbone, TimmBackbone
from mmssprl.probing.linear import LabelledSplit, extract_split
from mmssprl.pyramid import PyramidLevel
from mmssprl.registry import TRANSFORMS

CPU = FeatureOptions(batch_size=2, num_workers=0, device="cpu", progress=False)


def test_every_pixel_of_a_patch_is_where_training_cuts_it():
    # Nothing is resized. Cells have 3 px with a patch of 1 px in the middle; two rows and columns
    # belong to no cell.
    image = torch.arange(121, dtype=torch.uint8).reshape(1, 11, 11).expand(3, 11, 11)
    _, patches = Crops(4, (PyramidLevel(3, 11, 1),)).cut(image)
    assert patches[:, 0].flatten().tolist() == [12, 15, 18, 45, 48, 51, 78, 81, 84]


def test_a_loader_in_place_of_paths_is_not_read():
    batches = map(torch.zeros, range(3))
    with pytest.raises(UserTypeError, match="images must be paths of images"):
        Images(batches)
    assert next(batches).shape == (1,)


def test_boxes_by_hand():
    # The shorter side, 256, is kept, with 16 and 116 px around a crop of 224. Patches have 4 px
    # around them in cells of 16; a pixel of the square of 32 is 8 high and 14.25 wide.
    found = Crops(224, (PyramidLevel(2, 32, 8),)).boxes(256, 456).tolist()
    assert found[0] == [116, 16, 340, 240]
    assert found[1:3] == [[57, 32, 171, 96], [285, 32, 399, 96]]
    assert found[3:] == [[57, 160, 171, 224], [285, 160, 399, 224]]


@pytest.mark.parametrize(("height", "width"), [(4, 1201), (1202, 5), (7, 700)])
def test_of_a_very_long_image_only_the_middle_is_resized(height, width, monkeypatch):
    rng = np.random.default_rng(0)
    image = torch.from_numpy(rng.integers(0, 256, (3, height, width), dtype=np.uint8))
    resized = []
    resize = functional.resize

    def kept(image, *args, **kwargs):
        resized.append(tuple(image.shape[1:]))
        return resize(image, *args, **kwargs)

    monkeypatch.setattr(functional, "resize", kept)
    (found,) = Crops(56).cut(image)
    ((short, long),) = (sorted(size) for size in resized)
    assert long <= 100 * short + 1

    whole = resize(image, [64], antialias=True)
    expected = functional.center_crop(whole, [56, 56])
    # A long side is rounded to pixels, so that the centre moves by at most half of one.
    assert (found[0].int() - expected.int()).abs().max() <= (0 if long == 700 else 255 / 64 * short)


def test_a_very_long_photograph_is_cut_before_a_classifier_resizes_it():
    pixels = np.random.default_rng(0).integers(0, 256, (2, 6001, 3), dtype=np.uint8)
    found = TRANSFORMS.build({"type": "CutEnds"})({"img": pixels, "ori_shape": (2, 6001)})
    assert np.array_equal(found["img"], pixels[:, 2900:3101])
    assert (found["img_shape"], found["ori_shape"]) == ((2, 201), (2, 6001))


@pytest.fixture
def model(config):
    return mmssprl.load_backbone("random", config, image_px=56)


PIXELS = np.random.default_rng(0).integers(0, 256, (70, 64, 3), dtype=np.uint8)
PHOTO = Image.fromarray(PIXELS)


def hand_made_crop():
    """The input of the model. 56 * 256 / 224 = 64 is the shorter side already."""
    crop = torch.from_numpy(PIXELS)[7:63, 4:60].permute(2, 0, 1).float()
    mean = torch.tensor([100.0, 110, 120])[:, None, None]
    std = torch.tensor([50.0, 55, 60])[:, None, None]
    return (crop - mean) / std


@pytest.mark.parametrize(
    "image",
    [PHOTO, PIXELS, torch.from_numpy(PIXELS).permute(2, 0, 1)],
    ids=["photograph", "array", "tensor"],
)
def test_the_input_is_the_central_crop(image, model):
    inputs = mmssprl.image_transform(model)(image)
    assert type(inputs) is torch.Tensor
    torch.testing.assert_close(inputs, hand_made_crop())


def test_gray_photographs_become_colours(model):
    assert mmssprl.image_transform(model)(PHOTO.convert("L")).shape == (3, 56, 56)


def test_files_give_the_features_of_their_crops(tmp_path, model):
    PHOTO.save(tmp_path / "a.png")
    (tmp_path / "bad.png").write_text("no image")
    paths = [str(tmp_path / name) for name in ("bad.png", "a.png")]
    split = LabelledSplit("train", paths, torch.tensor([[0, 0], [1, -1]]), torch.arange(2))
    features, found = extract_split(model, split, CPU)
    assert found.labels.tolist() == [[1, -1]]  # of the image that can be read
    crop = hand_made_crop()
    with torch.no_grad():
        torch.testing.assert_close(features, model.backbone(crop[None])[-1].mean(dim=(2, 3)))
        torch.testing.assert_close(features, model(crop[None]))


def extracted(backbone, px):
    images = torch.zeros(2, 3, 200, 200, dtype=torch.uint8)
    model = FeatureBackbone(backbone, image_px=px)
    return joined(extract(model, images.__getitem__, ["a", "b"], Crops(px), CPU)).features


@pytest.mark.parametrize("options", [{}, {"img_size": 192}])
def test_a_size_that_the_network_refuses_is_named_with_the_option(options):
    network = TimmBackbone("test_maxvit", options=options).eval()
    usual = options.get("img_size", 160)
    message = rf"take images of 96 x 96 px, but raises Assert.*\(--image-px\), such as {usual}\."
    with pytest.raises(UserValueError, match=message):
        extracted(network, 96)
    assert extracted(network, usual).shape[:2] == (2, 1)


class Broken(nn.Module):
    def forward(self, images):
        raise ZeroDivisionError


@pytest.mark.parametrize("img_size", [None, (64, 64), (96, 96)])
def test_an_error_for_another_reason_than_the_size_keeps_its_class(img_size):
    network = Broken()
    if img_size:
        network.img_size = img_size
    with pytest.raises(ZeroDivisionError):
        extracted(network, 96)


def test_an_error_in_a_network_of_the_user_names_its_function():
    network = ModuleBackbone("helpers.models.odd_nets:half")
    match = r"float32 images \(2, 3, 96, 96\), but .*odd_nets:half raises RuntimeError: .*; give"
    with pytest.raises(UserValueError, match=match):
        extracted(network, 96)
