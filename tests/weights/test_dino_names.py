"""Stand-ins with the names, shapes and roles that DINOv2's and DINOv3's published files have."""

import pytest
import timm
import torch

from mmssprl.models import TimmBackbone
from mmssprl.weights import check_fit, read_backbone, start_state
from mmssprl.weights.dino_names import is_of_dino_authors

NAMES = {
    "vit_small_patch14_dinov2": 14,
    "vit_small_patch14_reg4_dinov2": 14,
    "vit_small_patch16_dinov3_qkvb": 16,
    "vit_small_plus_patch16_dinov3_qkvb": 16,
}
SMALL = {"embed_dim": 24, "depth": 2, "num_heads": 2, "dynamic_img_size": True}


def network_of(name):
    torch.manual_seed(1)
    network = TimmBackbone(name, options=SMALL)
    with torch.no_grad():
        for value in network.parameters():
            value.normal_(std=0.3)
    return network.eval()


def as_published(network):
    """Timm's tensors under the authors' names."""
    state = dict(network.state_dict())
    is_third = "pos_embed" not in state
    found = {"mask_token": torch.zeros(1, 24)}
    if is_third:
        found["rope_embed.periods"] = torch.ones(3)
    elif "reg_token" in state:  # the position of the class token lies apart from it
        of_class = torch.linspace(-1, 1, 24).view(1, 1, 24)
        state["cls_token"] = state["cls_token"] - of_class
        state["pos_embed"] = torch.cat([of_class, state["pos_embed"]], dim=1)
    for name, value in state.items():
        if name == "reg_token":
            name = "storage_tokens" if is_third else "register_tokens"
        if name.endswith("q_bias"):
            rest = (torch.full((24,), 7.0), state[name.replace("q_bias", "v_bias")])  # masked keys
            name, value = name.replace("q_bias", "qkv.bias"), torch.cat([value, *rest])
            found[f"{name}_mask"] = torch.ones(72)
        elif name.endswith("v_bias"):
            continue
        for ours, theirs in (("gamma_1", "ls1.gamma"), ("gamma_2", "ls2.gamma")):
            name = name.replace(ours, theirs)
        if "fc1_g" in "".join(state):
            for ours, theirs in (("fc1_g", "w1"), ("fc1_x", "w2"), ("fc2", "w3")):
                name = name.replace(ours, theirs)
        found[name] = value
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_the_authors_gives_the_same_features(name, tmp_path):
    network, file = network_of(name), tmp_path / "published.pth"
    published = as_published(network)
    assert is_of_dino_authors(published)
    torch.save(published, file)
    other = TimmBackbone(name, options=SMALL).eval()
    other.load_state_dict(read_backbone(file), strict=True)
    px = 4 * NAMES[name]
    images = torch.randn(2, 3, px, 2 * px, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        torch.testing.assert_close(other(images)[0], network(images)[0])


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_timm_is_taken_as_it_is(name, tmp_path):
    network = network_of(name)
    torch.save(network.state_dict(), tmp_path / "timm.pth")
    found = read_backbone(tmp_path / "timm.pth")
    assert not is_of_dino_authors(found)
    assert found.keys() == network.state_dict().keys()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda s: {**s, "patch_embed.proj.weight": torch.zeros(24, 3, 16, 16)}, "16, 16"),
        (lambda s: dict(list(s.items())[: len(s) // 2]), r"\d+ missing"),
        (lambda s: {"conv1.weight": torch.zeros(3)}, "missing.*1 unexpected .conv1.weight"),
    ],
    ids=["patch", "half", "architecture"],
)
def test_other_weights_are_one_line(change, told, tmp_path):
    network = network_of("vit_small_patch14_dinov2")
    torch.save(change(as_published(network)), tmp_path / "other.pth")
    with pytest.raises(ValueError, match=told) as caught:
        check_fit(
            read_backbone(tmp_path / "other.pth"),
            network.state_dict(),
            weights="other.pth",
            owner="a",
            remedy="b.",
        )
    assert "\n" not in str(caught.value)


def test_weights_of_timm_by_name_are_its_own_or_one_line(monkeypatch):
    own, create = {}, timm.create_model

    def stub(name, pretrained, num_classes):
        assert (pretrained, num_classes) == (True, 0)
        own.update(create(name, num_classes=0).state_dict())
        network = create(name, num_classes=0)
        network.load_state_dict(own)
        return network

    monkeypatch.setattr(timm, "create_model", stub)
    found = start_state("timm/test_vit")
    assert all(torch.equal(found[name], own[name]) for name in own)

    def offline(name, pretrained, num_classes):
        raise ConnectionError("no network")

    monkeypatch.setattr(timm, "create_model", offline)
    with pytest.raises(OSError, match=r"timm/test_vit.*no network.*give the file: timm/test_vit:"):
        start_state("timm/test_vit")
    with pytest.raises(ValueError, match="has no network 'nothing'"):
        start_state("timm/nothing")
