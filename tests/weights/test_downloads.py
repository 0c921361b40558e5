"""Weights that torchvision and timm download; nothing is downloaded here."""

from pathlib import Path
from unittest import mock
from urllib.error import URLError

import huggingface_hub
import pytest
import timm
import torch
import torchvision
from huggingface_hub.constants import HF_HUB_CACHE

from mmssprl.errors import UserOSError, UserValueError
from mmssprl.weights import find_config, has_supervised, load_network, start_state

URL = "https://download.pytorch.org/models/resnet18-f37072fd.pth"
OFFLINE = mock.Mock(side_effect=URLError("no network"))


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The folder where torch keeps downloads, and no internet."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr(torch.hub, "download_url_to_file", OFFLINE)
    return Path(torch.hub.get_dir()) / "checkpoints"


def lines_of(weights, depth=18):
    """The lines of the message about weights that cannot be downloaded."""
    with pytest.raises(UserOSError) as caught:
        start_state(weights, depth)
    return str(caught.value).splitlines()


class TestSupervised:
    def test_without_internet_the_ways_to_give_it_are_listed(self, cache):
        head, file, others = lines_of("supervised")
        assert head.startswith(f"'supervised', torchvision's ResNet-18, is not in {cache} and ")
        assert "no network" in head
        assert f"download {URL} elsewhere, and give that file, or copy it to {cache} (TORC" in file
        assert "timm/NAME:FILE" in others
        assert "package.module:function" in others

    def test_a_damaged_file_is_named(self, cache):
        cache.mkdir(parents=True)
        file = cache / Path(URL).name
        file.write_bytes(b"half")
        with pytest.raises(UserOSError, match=rf"^{file}, of .* cannot be read .* Delete it, and"):
            start_state("supervised", 18)

    def test_a_file_in_the_cache_is_read(self, cache):
        assert not has_supervised(18)
        cache.mkdir(parents=True)
        network = torchvision.models.resnet18()
        torch.save(network.state_dict(), cache / Path(URL).name)
        assert has_supervised(18)
        state = start_state("supervised", 18)
        assert torch.equal(state["conv1.weight"], network.conv1.weight)
        assert not any(name.startswith("fc.") for name in state)

    def test_other_depths_are_refused(self):
        with pytest.raises(
            UserValueError, match="no supervised weights of a resnet26; give a file"
        ):
            start_state("supervised", 26)

    @pytest.mark.parametrize("weights", ["{}", "timm/resnet18:{}"])
    def test_its_file_can_be_given(self, weights, tmp_path):
        network = torchvision.models.resnet18()
        file = tmp_path / Path(URL).name
        torch.save(network.state_dict(), file)
        given = weights.format(file)
        state = load_network(given, find_config(given, None)).state_dict()
        assert torch.equal(state["layer4.1.conv2.weight"], network.layer4[1].conv2.weight)


class TestTimm:
    @pytest.fixture
    def created(self, monkeypatch):
        """The calls of timm.create_model, which returns a small network."""
        calls = mock.Mock(return_value=timm.create_model("test_vit", num_classes=0))
        monkeypatch.setattr(timm, "create_model", calls)
        return calls

    @pytest.fixture
    def asked(self, monkeypatch, tmp_path):
        """The requests to the hub, none of which succeeds."""
        calls = mock.Mock(side_effect=ConnectionError("no network"))
        monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", calls)
        monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *a, **k: None)
        return calls

    def test_without_internet_the_ways_to_give_it_are_listed(self, created, asked):
        head, file, folder, others = lines_of("timm/vit_small_patch14_dinov2")
        assert head.startswith(f"timm/vit_small_patch14_dinov2 is not in {HF_HUB_CACHE} and cann")
        assert "no network" in head
        repository = "timm/vit_small_patch14_dinov2.lvd142m"
        assert f"download model.safetensors of https://huggingface.co/{repository} else" in file
        assert file.endswith("give timm/vit_small_patch14_dinov2:FILE")
        assert "models--timm--vit_small_patch14_dinov2.lvd142m" in folder
        assert f"to {HF_HUB_CACHE} (HF_HOME or" in folder
        assert "package.module:function" in others

    def test_the_hub_is_asked_once(self, created, asked):
        """timm would ask for each of two files six times."""
        lines_of("timm/test_vit")
        assert asked.call_count == 1
        assert not created.called

    def test_what_is_cached_is_not_asked_for(self, created, asked, monkeypatch):
        found = {"pytorch_model.bin": "there"}
        monkeypatch.setattr(
            huggingface_hub, "try_to_load_from_cache", lambda _, name, **more: found.get(name)
        )
        own = created.return_value.state_dict()
        state = start_state("timm/test_vit")
        assert all(torch.equal(state[name], value) for name, value in own.items())
        created.assert_called_once_with("test_vit", pretrained=True, num_classes=0)
        assert not asked.called

    def test_a_network_without_published_weights_is_named(self):
        with pytest.raises(UserValueError, match="no weights of timm/efficientnet_lite1; give a "):
            start_state("timm/efficientnet_lite1")

    def test_weights_outside_the_hub_are_named_by_their_url(self, cache, monkeypatch):
        record = mock.Mock(hf_hub_id=None, url="https://a.b/c.pth", has_weights=True)
        monkeypatch.setattr(timm, "get_pretrained_cfg", lambda name: record)
        monkeypatch.setattr(timm, "create_model", OFFLINE)
        head, file, _ = lines_of("timm/test_vit")
        assert f"timm/test_vit is not in {cache}" in head
        assert "download https://a.b/c.pth elsewhere, and give timm/test_vit:FILE, or copy" in file
