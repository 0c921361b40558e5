"""Stand-ins with the names, shapes and roles that DINOv2's and DINOv3's published files have."""

from unittest import mock

import pytest
import timm
import torch

from mmssprl.models import TimmBackbone
from mmssprl.weights import read_backbone, start_state

NAMES = {
    "vit_small_patch14_dinov2": 14,
    "vit_small_patch14_reg4_dinov2": 14,
    "vit_small_patch16_dinov3_qkvb": 16,
    "vit_small_plus_patch16_dinov3_qkvb": 16,
}
SMALL = {"embed_dim": 24, "depth": 2, "num_heads": 2, "dynamic_img_size": True}
THEIRS = {"gamma_1": "ls1.gamma", "gamma_2": "ls2.gamma"}
OF_PLUS = {"fc1_g": "w1", "fc1_x": "w2", "fc2": "w3"}


def as_published(network):
    """Return the tensors of a network of timm under the authors' names."""
    state = dict(network.state_dict())
    is_third = "pos_embed" not in state
    found = {"mask_token": torch.zeros(1, 24)}
    if is_third:
        found["rope_embed.periods"] = torch.ones(3)
    elif "reg_token" in state:  # the class token has its own position
        of_class = torch.linspace(-1, 1, 24).view(1, 1, 24)
        state["cls_token"] = state["cls_token"] - of_class
        state["pos_embed"] = torch.cat([of_class, state["pos_embed"]], dim=1)
    renamed = {"reg_token": "storage_tokens" if is_third else "register_tokens", **THEIRS}
    renamed |= OF_PLUS if "fc1_g" in "".join(state) else {}
    for name, value in state.items():
        if name.endswith("q_bias"):
            rest = (torch.full((24,), 7.0), state[name.replace("q_bias", "v_bias")])  # masked keys
            name, value = name.replace("q_bias", "qkv.bias"), torch.cat([value, *rest])
            found[f"{name}_mask"] = torch.ones(72)
        for ours, theirs in renamed.items():
            name = name.replace(ours, theirs)
        if not name.endswith("v_bias"):
            found[name] = value
    return found


@pytest.mark.parametrize("name", NAMES)
def test_files_of_the_authors_and_of_timm_give_the_same_features(name, tmp_path):
    torch.manual_seed(1)
    network, file = TimmBackbone(name, options=SMALL).eval(), tmp_path / "published.pth"
    for value in network.parameters():
        value.data.normal_(std=0.3)
    px = 4 * NAMES[name]
    images = torch.randn(2, 3, px, 2 * px)
    for state in (network.state_dict(), as_published(network)):
        torch.save(state, file)
        other = TimmBackbone(name, options=SMALL).eval()
        other.load_state_dict(read_backbone(file), strict=True)
        with torch.inference_mode():
            torch.testing.assert_close(other(images)[0], network(images)[0])


def test_weights_of_timm_by_name_or_one_line(monkeypatch):
    own = timm.create_model("test_vit", num_classes=0)
    asked = mock.Mock(return_value=own)
    monkeypatch.setattr(timm, "create_model", asked)
    found = start_state("timm/test_vit")
    assert all(torch.equal(found[name], value) for name, value in own.state_dict().items())
    asked.assert_called_once_with("test_vit", pretrained=True, num_classes=0)
    offline = mock.Mock(side_effect=ConnectionError("no network"))
    monkeypatch.setattr(timm, "create_model", offline)
    with pytest.raises(OSError, match=r"timm/test_vit.*no network.*timm/test_vit:FILE"):
        start_state("timm/test_vit")
    with pytest.raises(ValueError, match="has no network 'nothing'"):
        start_state("timm/nothing")
    with pytest.raises(ValueError, match=r"no weights 'resnet18.b'; .*list_pretrained\('resnet18"):
        start_state("timm/resnet18.b")
