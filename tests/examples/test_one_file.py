import runpy

import pytest
import torch
from helpers.package.checkout import ROOT
from PIL import Image

from mmssprl.models import SSPRL
from mmssprl.pyramid import PyramidLevel, ViewLayout

pytestmark = pytest.mark.fence

ONE_FILE = runpy.run_path(str(ROOT / "examples/ssprl_in_one_file.py"))


@pytest.fixture(scope="module")
def pair():
    """Both models with equal weights, and the losses of each for the same views."""
    torch.manual_seed(0)
    model = ONE_FILE["SSPRL"]().double()
    levels = [PyramidLevel(*level) for level in ONE_FILE["LEVELS"]]
    layout = ViewLayout(image_px=ONE_FILE["IMAGE_PX"], levels=levels)
    package = SSPRL(
        layout,
        backbone={"type": "mmpretrain.ResNet", "depth": 18},
        neck={"type": "MultiHeadNeck", "in_channels": 512, "hid_channels": 512},
        head={"type": "SinkhornHead", "num_prototypes": 30, "num_patch_prototypes": 30},
    )
    package.backbone.double(), package.neck.double()
    package.backbone.load_state_dict(model.backbone.state_dict())
    package.neck.heads.load_state_dict(model.heads.state_dict())
    own = (*model.prototypes, *model.correlation)
    for theirs, mine in zip(linear_of(package.head), own, strict=True):
        theirs.data.copy_(mine)
    sizes = [(group.num_crops // 2, group.px) for group in layout.groups]
    views = [torch.randn(2, num, 3, 3, px, px, dtype=torch.float64) for num, px in sizes]
    terms = model(views)
    expected = package.loss([crops.flatten(0, 1) for crops in views])
    return model, package, terms, expected


def linear_of(head):
    return [c.weight for c in (*head.prototypes, *head.correlation)]


def test_the_losses_equal_the_packages(pair):
    _, _, terms, expected = pair
    assert terms.keys() == expected.keys()
    for name, term in terms.items():
        torch.testing.assert_close(term.float(), expected[name], rtol=1e-5, atol=1e-6)


def test_the_gradients_equal_the_packages(pair):
    model, package, terms, expected = pair
    sum(terms.values()).backward()
    sum(expected.values()).backward()
    own = [*model.backbone.parameters(), *model.heads.parameters()]
    own += [*model.prototypes, *model.correlation]
    theirs = [*package.backbone.parameters(), *package.neck.heads.parameters()]
    theirs += linear_of(package.head)
    for mine, other in zip(own, theirs, strict=True):
        # A bias before BatchNorm has no gradient but for rounding.
        error = (mine.grad - other.grad).norm() / other.grad.norm().clamp(min=1e-3)
        assert error < 1e-4


def test_the_views_of_a_patch_show_one_cell(tmp_path):
    """Of an image whose pixels are their place, both patches m of a level lie in the cell m."""
    pixels = torch.zeros(200, 300, 3)
    pixels[..., 0] = torch.linspace(0, 255, 200)[:, None]
    pixels[..., 1] = torch.linspace(0, 255, 300)
    Image.fromarray(pixels.byte().numpy()).save(tmp_path / "place.png")
    images = ONE_FILE["PyramidViews"](str(tmp_path))
    images.augment = torch.nn.Identity()
    image, *patches = images[0]
    assert image.shape == (2, 1, 3, 96, 96)
    for views, (grid, px, patch_px) in zip(patches, ONE_FILE["LEVELS"], strict=True):
        assert views.shape == (2, grid * grid, 3, patch_px, patch_px)
        centres = views[:, :, :2].double().mean((3, 4))  # (2, M, row and column)
        cell = 255 / grid  # at most; the crop shows 60 % or more of the image
        assert (centres[0] - centres[1]).abs().max() < cell * (px / grid - patch_px) / (px / grid)
        assert len({tuple(c.tolist()) for c in (centres[0] / cell).round(decimals=1)}) == grid**2
