import pytest
import torch
from helpers.weights import published_checkpoints as published

from mmssprl.weights import convert_weights, find_config, load_backbone
from mmssprl.weights.branches import read_branch
from mmssprl.weights.convert import default_out


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    return published.randomise(published.Narrow()).half().float()  # so that half is enough


@pytest.fixture
def trunk(net):
    return published.trunk_of(net)


@pytest.mark.parametrize("project", published.LAYOUTS, ids=lambda project: project.__name__)
def test_convert_and_every_command_read_the_same_backbone(project, net, trunk, tmp_path, capsys):
    name, prefix, *others = published.LAYOUTS[project]
    file = published.save(project(trunk), tmp_path / name)
    out = tmp_path / "ours" / "w.pth"
    report = convert_weights(file, out)
    assert (report.branch.prefix, set(report.branch.others)) == (prefix, set(others))
    images = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    expected = published.features(net, images, pads_outside=project is published.swav)
    for weights in (file, out):  # what other commands read
        cfg = find_config(str(weights), None)
        assert cfg.model.backbone == {"type": "ResNet", "depth": 18, "base_channels": 8}
        backbone = load_backbone(str(weights), cfg, seed=9)
        with torch.no_grad():
            torch.testing.assert_close(backbone(images)[-1], expected)
    told = capsys.readouterr().out
    assert all(repr(other) in told for other in others)
    has_counters = project not in (
        *(published.extracted, published.detectron2, published.detectron2_fpn),
    )
    assert report.completed == ({} if has_counters else {"num_batches_tracked": 21})
    assert len(report.branch.tensors) == (126 if has_counters else 105)
    assert report.kept == {}
    # The written file is plain: names and nothing else, in torchvision's network.
    state = torch.load(out, weights_only=True)
    assert state.keys() == trunk.keys()
    assert state["conv1.weight"].dtype == torch.float32
    assert int(state["bn1.num_batches_tracked"]) == (7 if has_counters else 0)


@pytest.mark.parametrize("prefix", ["student", "student.module.backbone."])
def test_a_prefix_chooses_a_branch(prefix, trunk, tmp_path):
    file = published.save(published.dino(trunk), tmp_path / "w.pth")
    report = convert_weights(file, tmp_path / "out.pth", prefix=prefix)
    assert report.branch.prefix == "student.module.backbone."
    assert report.branch.others == ()
    assert not any(value.any() for value in report.branch.tensors.values())
    with pytest.raises(
        ValueError, match=r"prefix .*w\.pth begins with nobody\.; .*student\.module"
    ):
        convert_weights(file, tmp_path / "out.pth", prefix="nobody", overwrite=True)


def test_a_network_of_ones_own_is_read_by_its_names(tmp_path):
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

    def test_tensors_that_are_missing_of_another_shape_or_without_a_place(self, trunk, tmp_path):
        content = published.torchvision(trunk)
        del content["layer2.0.conv1.weight"]
        content["conv1.weight"] = torch.ones(64, 3, 3, 3)
        content["layer4.1.bn9.bias"] = torch.ones(1)
        match = r"w.pth.*1 missing \(layer2.0.conv1.weight\).*1 unexpected \(layer4.1.bn9.bias\)"
        match += r".*\(64, 3, 3, 3\) instead of \(64, 3, 7, 7\)"
        self.refused(content, tmp_path, match)

    def test_no_resnet_no_finite_one_and_a_config_of_none(self, trunk, tmp_path):
        content = {f"blocks.{i}.attn.weight": torch.ones(1) for i in range(7)}
        self.refused(content, tmp_path, "must be a ResNet.*w.pth show.* blocks.0.attn.weight, ")
        content = published.torchvision(trunk)
        self.refused(content, tmp_path, "config .*ptypes.weight", config="any.py")
        content["bn1.bias"] = torch.full((64,), torch.nan)
        self.refused(content, tmp_path, r"1 of 126.*w.pth.*NaN.*bn1.bias")

    def test_files_that_are_there_or_not(self, trunk, tmp_path):
        with pytest.raises(FileNotFoundError, match="gone.pth"):
            convert_weights(tmp_path / "gone.pth", tmp_path / "out.pth")
        file = published.save(published.torchvision(trunk), tmp_path / "w.pth")
        for out in (file, tmp_path / "out.py"):
            with pytest.raises(ValueError, match=r"\.pth"):
                convert_weights(file, out, overwrite=True)
        for existing in ("out.pth", "out.json"):
            (tmp_path / existing).write_text("mine")
            with pytest.raises(FileExistsError, match=rf"{existing}.*overwrite"):
                convert_weights(file, tmp_path / "out.pth")
            assert (tmp_path / existing).read_text() == "mine"
            (tmp_path / existing).unlink()


def test_names_a_folder_of_its_own():
    out = default_out("a/b/densecl_1.6k.safetensors")
    assert out.as_posix() == "work_dirs/converted/densecl_1_6k/densecl_1_6k.pth"
