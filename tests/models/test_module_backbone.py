"""A user's network as a backbone: which of its outputs is used."""

import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch
from mmengine.registry import DefaultScope, init_default_scope
from torch import nn

from mmssprl.models.module_backbone import ModuleBackbone

NAMES = "nets_of_tokens"


class Outputs(dict):
    """As transformers' ModelOutput: a dict whose values are attributes, too."""

    def __getattr__(self, name):
        return self[name]


class Tokens(nn.Module):
    """Return ``num`` special tokens of -1, then the numbers of the cells, row by row."""

    def __init__(self, cell_px, num, patch_size):
        super().__init__()
        self.cell_px = cell_px
        self.num = num
        self.config = SimpleNamespace(patch_size=patch_size)

    def forward(self, images):
        height, width = (side // self.cell_px for side in images.shape[-2:])
        special = torch.full((self.num,), -1.0)
        tokens = torch.cat([special, torch.arange(height * width).float()])
        hidden = tokens.repeat(len(images), 1).unsqueeze(2)
        return Outputs(last_hidden_state=hidden, pooler_output=hidden[:, 0])


@pytest.fixture
def backbone(monkeypatch):
    def make(*args):
        module = ModuleType(NAMES)
        module.net = lambda: Tokens(*args)
        monkeypatch.setitem(sys.modules, NAMES, module)
        return ModuleBackbone(f"{NAMES}:net")

    return make


@pytest.mark.parametrize("num_special", [0, 1, 5])
@pytest.mark.parametrize(("height", "width"), [(32, 32), (48, 32)])
def test_tokens_become_a_map_without_the_special_ones(backbone, num_special, height, width):
    (found,) = backbone(16, num_special, 16)(torch.zeros(2, 3, height, width))
    cells = torch.arange(height * width // 256).float().view(1, 1, height // 16, width // 16)
    assert torch.equal(found, cells.expand(2, -1, -1, -1))


def test_tokens_of_merged_patches_become_a_map(backbone):
    """Swin's last tokens are of 32 px, its patches of 4 px."""
    (found,) = backbone(32, 0, 4)(torch.zeros(1, 3, 64, 64))
    assert found.tolist() == [[[[0, 1], [2, 3]]]]


def test_special_tokens_of_a_network_without_patch_size_are_refused(backbone):
    match = r"nets_of_tokens:net returns 5 for \(32, 32\) px; let its forward return the map"
    with pytest.raises(ValueError, match=match):
        backbone(16, 1, None)(torch.zeros(1, 3, 32, 32))


def test_a_map_with_the_features_last_is_refused_by_all_commands():
    network = ModuleBackbone("helpers.models.odd_nets:channels_last").eval()
    with pytest.raises(ValueError, match=r"\(1, 8, 8, 12\), with the features last; return"):
        network(torch.zeros(1, 3, 64, 64))


def test_a_map_of_transformers_is_taken_in_place_of_its_pooled_output(backbone):
    network = backbone(16, 0, 16)
    maps = torch.arange(8.0).view(1, 2, 2, 2)
    network.inner.forward = lambda images: Outputs(last_hidden_state=maps, pooler_output=maps[0])
    (found,) = network(torch.zeros(1, 3, 32, 32))
    assert torch.equal(found, maps)


def test_a_network_of_another_type_that_casts_images_is_used(monkeypatch):
    class Casting(nn.Conv2d):
        def forward(self, images):
            return super().forward(images.to(self.weight.dtype))

    module = ModuleType(NAMES)
    module.net = lambda: Casting(3, 4, 1).bfloat16()
    monkeypatch.setitem(sys.modules, NAMES, module)
    (found,) = ModuleBackbone(f"{NAMES}:net")(torch.zeros(1, 3, 8, 8))
    assert (found.shape, found.dtype) == ((1, 4, 8, 8), torch.bfloat16)


def test_a_scope_that_the_function_sets_is_not_kept(monkeypatch):
    module = ModuleType(NAMES)
    module.net = lambda: init_default_scope("mmdet") or nn.Conv2d(3, 1, 1)
    monkeypatch.setitem(sys.modules, NAMES, module)
    with DefaultScope.overwrite_default_scope("mmssprl"):
        ModuleBackbone(f"{NAMES}:net")
        assert DefaultScope.get_current_instance().scope_name == "mmssprl"
