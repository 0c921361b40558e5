import pytest
import torch
from helpers.weights import published_checkpoints as published

from mmssprl.weights import convert_weights
from mmssprl.weights.branches import read_branch
from mmssprl.weights.convert import default_out


@pytest.fixture(scope="module")
def trunk():
    return published.trunk_of(published.randomise(published.Narrow()))


def test_a_prefix_chooses_a_branch(trunk, tmp_path):
    file = published.save(published.content_of(published.DINO, trunk), tmp_path / "w.pth")
    for prefix in ("student", "student.module.backbone."):
        branch = read_branch(file, prefix=prefix)
        assert (branch.prefix, branch.others) == ("student.module.backbone.", ())
        assert not any(value.any() for value in branch.tensors.values())
    match = r"no tensor of .*w\.pth begins with the prefix nobody\.; .*student\.module"
    with pytest.raises(ValueError, match=match):
        read_branch(file, prefix="nobody")


def test_a_custom_network_is_read_by_its_names(tmp_path):
    wanted = {f"backbone.{name}": torch.ones(1) for name in ("fc.weight", "conv.weight")}
    file = published.save({"model": {**wanted, "loss.weight": torch.ones(1)}}, tmp_path / "w.pth")
    branch = read_branch(file, wanted)
    assert branch.prefix == "model."
    assert branch.tensors.keys() == {*wanted, "loss.weight"}


class TestRefusals:
    def refused(self, content, tmp_path, match, **options):
        file = published.save(content, tmp_path / "w.pth")
        out = tmp_path / "ours" / "w.pth"
        with pytest.raises(ValueError, match=match):
            convert_weights(file, out, **options)
        assert not out.exists()
        assert not out.with_suffix(".json").exists()

    def test_missing_unexpected_and_misshapen_tensors(self, trunk, tmp_path):
        content = published.content_of("=W", trunk)
        del content["layer2.0.conv1.weight"]
        content["conv1.weight"] = torch.ones(64, 3, 3, 3)
        content["layer4.1.bn9.bias"] = torch.ones(1)
        match = r"w.pth.*1 missing \(layer2.0.conv1.weight\).*1 unexpected \(layer4.1.bn9.bias\)"
        match += r".*\(64, 3, 3, 3\) instead of \(64, 3, 7, 7\)"
        self.refused(content, tmp_path, match)

    def test_other_networks_nan_and_a_needless_config(self, trunk, tmp_path):
        content = {f"blocks.{i}.attn.weight": torch.ones(1) for i in range(7)}
        self.refused(content, tmp_path, "must be a ResNet.*w.pth show.* blocks.0.attn.weight, ")
        content = published.content_of("=W", trunk)
        self.refused(content, tmp_path, "config .*ptypes.weight", config="any.py")
        content["bn1.bias"] = torch.full((64,), torch.nan)
        self.refused(content, tmp_path, r"1 of 126.*w.pth.*NaN.*bn1.bias")

    def test_existing_files(self, trunk, tmp_path):
        file = published.save(published.content_of("=W", trunk), tmp_path / "w.pth")
        with pytest.raises(ValueError, match=r"must not be the input file, .*w\.pth"):
            convert_weights(file, file, overwrite=True)
        for existing in ("out.pth", "out.json"):
            (tmp_path / existing).write_text("mine")
            with pytest.raises(FileExistsError, match=rf"{existing}.*overwrite"):
                convert_weights(file, tmp_path / "out.pth")
            assert (tmp_path / existing).read_text() == "mine"
            (tmp_path / existing).unlink()


def test_default_out():
    out = default_out("a/b/densecl_1.6k.safetensors")
    assert out.as_posix() == "work_dirs/converted/densecl_1_6k/densecl_1_6k.pth"
