"""Stand-ins with the names, shapes and roles that DINOv2's and DINOv3's published files have."""

import pytest
import timm
import torch
from safetensors.torch import save_file
from timm.models.vision_transformer import checkpoint_filter_fn

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
            masked_keys = torch.full((24,), 7.0)
            value = torch.cat([value, masked_keys, state[name.replace("q_bias", "v_bias")]])
            name = name.replace("q_bias", "qkv.bias")
            found[f"{name}_mask"] = torch.ones(72)
        for ours, theirs in renamed.items():
            name = name.replace(ours, theirs)
        if not name.endswith("v_bias"):
            found[name] = value
    return found


@pytest.mark.parametrize("name", NAMES)
def test_published_files_give_the_features_of_timms_networks(name, tmp_path):
    torch.manual_seed(1)
    network = TimmBackbone(name, options=SMALL).eval()
    file = tmp_path / "published.pth"
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


def in_chunks(state, size):
    """Names of DINOv2's training: its blocks are in chunks, and it counts them through."""
    found = {}
    for name, value in state.items():
        if name.startswith("blocks."):
            number = int(name.split(".")[1])
            name = name.replace("blocks.", f"blocks.{number // size}.", 1)
        found[name] = value
    return found


class TestChunks:
    @pytest.mark.parametrize("name", list(NAMES)[:2])
    def test_of_a_training_are_read(self, name, tmp_path):
        network = TimmBackbone(name, options={**SMALL, "depth": 6})
        chunks = in_chunks(as_published(network), 4)
        assert "blocks.1.5.ls1.gamma" in chunks
        named = {f"backbone.{key}": value for key, value in chunks.items()}
        torch.save({"teacher": named, "iteration": 3}, tmp_path / "teacher_checkpoint.pth")
        state = read_backbone(tmp_path / "teacher_checkpoint.pth", network.state_dict())
        assert state.keys() == network.state_dict().keys()
        for key, value in network.state_dict().items():
            torch.testing.assert_close(state[key], value)

    def test_a_network_with_such_names_keeps_them(self, tmp_path):
        network = timm.create_model("twins_pcpvt_small", num_classes=0)
        torch.save(network.state_dict(), tmp_path / "w.pth")
        state = read_backbone(tmp_path / "w.pth", network.state_dict())
        assert state.keys() == network.state_dict().keys()


class TestPositions:
    @pytest.mark.parametrize("name", ["vit_small_patch14_dinov2", "vit_small_patch14_reg4_dinov2"])
    @pytest.mark.parametrize("form", ["timm", "authors"])
    def test_of_another_size_are_interpolated_as_timm_does(self, name, form, tmp_path, capsys):
        torch.manual_seed(2)
        small = TimmBackbone(name, options={**SMALL, "img_size": 224})
        small.inner.pos_embed.data.normal_()
        state = small.state_dict() if form == "timm" else as_published(small)
        torch.save(state, tmp_path / "w.pth")
        wanted = timm.create_model(name, num_classes=0, **SMALL)
        right = checkpoint_filter_fn(dict(small.state_dict()), wanted)
        wanted.load_state_dict(right)

        found = read_backbone(tmp_path / "w.pth", wanted.state_dict())
        for key, value in wanted.state_dict().items():
            torch.testing.assert_close(found[key], value, msg=key)
        line = "w.pth: positions interpolated from 16 x 16 patches to 37 x 37.\n"
        assert line in capsys.readouterr().out

    def test_of_another_network_are_kept(self, tmp_path):
        state = {"pos_embed": torch.ones(1, 11, 8), "norm.weight": torch.ones(8)}
        torch.save(state, tmp_path / "w.pth")
        for shape in ((1, 17, 8), (1, 12, 8), (1, 17, 9), (17, 8)):
            wanted = {**state, "pos_embed": torch.ones(shape)}
            found = read_backbone(tmp_path / "w.pth", wanted)
            assert torch.equal(found["pos_embed"], state["pos_embed"])


TRANSFORMERS = {
    "resnet": "resnet.embedder.embedder.convolution.weight",
    "vit": "vit.encoder.layer.0.attention.attention.query.weight",
    "dinov2": "embeddings.cls_token",
    "swin": "swin.encoder.layers.0.blocks.0.attention.self.query.bias",
    "convnext": "convnext.embeddings.patch_embeddings.weight",
    "clip": "vision_model.embeddings.class_embedding",
}


class TestTransformers:
    @pytest.mark.parametrize("name", TRANSFORMERS)
    def test_are_called_so(self, name, tmp_path):
        save_file({TRANSFORMERS[name]: torch.ones(3)}, tmp_path / "model.safetensors")
        match = (
            rf"model\.safetensors has the names of Hugging Face's transformers, such as "
            rf"{TRANSFORMERS[name]}, which are not read; take the same network of timm "
        )
        wanted = timm.create_model("test_vit", num_classes=0).state_dict()
        for each in ({}, wanted):
            with pytest.raises(ValueError, match=match):
                read_backbone(tmp_path / "model.safetensors", each)

    def test_next_to_a_resnet_are_left_out(self, tmp_path):
        own = dict.fromkeys(("conv1.weight", "bn1.running_var", "layer1.0.conv1.weight"))
        state = {f"image.{name}": torch.ones(3) for name in own}
        theirs = {f"text.{TRANSFORMERS['dinov2']}": torch.ones(3)}
        save_file({**theirs, **state}, tmp_path / "model.safetensors")
        assert read_backbone(tmp_path / "model.safetensors").keys() == own.keys()

    def test_are_read_into_a_network_of_these_names(self, tmp_path):
        state = {name: torch.full((2,), float(i)) for i, name in enumerate(TRANSFORMERS.values())}
        save_file(state, tmp_path / "model.safetensors")
        found = read_backbone(tmp_path / "model.safetensors", state)
        assert {key: value[0].item() for key, value in found.items()} == {
            name: i for i, name in enumerate(TRANSFORMERS.values())
        }


@pytest.mark.parametrize(
    ("weights", "match"),
    [
        ("timm/nothing", "has no network 'nothing'"),
        ("timm/resnet18.b", r"no weights 'resnet18.b'; .*list_pretrained\('resnet18"),
    ],
)
def test_unknown_names_of_timm_are_refused(weights, match):
    with pytest.raises(ValueError, match=match):
        start_state(weights)
