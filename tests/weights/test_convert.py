"""Convert a ResNet: what is refused, and what the description keeps."""

import json

import pytest
import torch
from helpers.weights import published_checkpoints as published
from helpers.weights.published_checkpoints import under
from mmengine.config import Config

from mmssprl.weights import convert_weights, write_description
from mmssprl.weights.description import read_description

RESNET = {"type": "ResNet", "depth": 18, "base_channels": 8}


@pytest.fixture(scope="module")
def trunk():
    torch.manual_seed(0)
    return published.trunk_of(published.randomise(published.Narrow()))


@pytest.mark.parametrize(
    ("change", "options", "match"),
    [
        (
            {"conv1.weight": torch.ones(64, 3, 3, 3), "layer4.1.bn9.bias": torch.ones(1)},
            {},
            r"w.pth.*1 missing \(bn1.bias\).*1 unexpected \(layer4.1.bn9.bias\)"
            r".*\(64, 3, 3, 3\) instead of \(64, 3, 7, 7\)",
        ),
        ({"bn1.bias": torch.full((64,), torch.nan)}, {}, r"1 of 126.*w.pth.*NaN.*bn1.bias"),
        ({}, {"config": "any.py"}, "config .*ptypes.weight"),
    ],
)
def test_what_is_no_resnet_is_not_converted(change, options, match, trunk, tmp_path):
    state = {key: value for key, value in trunk.items() if key != "bn1.bias"} | change
    file = published.save(state, tmp_path / "w.pth")
    with pytest.raises(ValueError, match=match):
        convert_weights(file, tmp_path / "ours" / "w.pth", **options)
    assert not [*(tmp_path / "ours").iterdir()]


def test_convert_keeps_the_numbers_of_a_described_checkpoint(trunk, tmp_path):
    file = published.save({"state_dict": under("backbone.", trunk)}, tmp_path / "epoch_3.pth")
    own = {
        "mean": [1.0, 2.0, 3.0],
        "std": [4.0, 5.0, 6.0],
        "pixels": {"channels": 3, "dtype": "uint16"},
    }
    layout = {"image_px": 64, "levels": []}
    model = {"backbone": RESNET, "data_preprocessor": own, "layout": layout}
    write_description(tmp_path / "run_backbone.pth", Config({"model": model, "method": "SSPRL"}))
    found = convert_weights(file, tmp_path / "out" / "w.pth").weights.with_suffix(".json")
    described = read_description(found)
    preprocessor = described.model.data_preprocessor.to_dict()
    assert json.loads(json.dumps(preprocessor)) == own
    assert described.model.layout.image_px == 64
    assert described.method == "SSPRL"


def test_a_checkpoint_beside_the_description_of_another_run_keeps_its_numbers(trunk, tmp_path):
    model = {"backbone": RESNET, "data_preprocessor": {"mean": [1, 2, 3], "std": [4, 5, 6]}}
    write_description(tmp_path / "run_backbone.pth", Config({"model": model}))
    model["data_preprocessor"] = {"mean": [7, 8, 9], "std": [1, 1, 1], "bgr_to_rgb": True}
    meta = {"cfg": Config({"model": model}).pretty_text}
    file = published.save({"meta": meta, "state_dict": trunk}, tmp_path / "epoch_3.pth")
    found = convert_weights(file, tmp_path / "out" / "w.pth").weights.with_suffix(".json")
    assert read_description(found).model.data_preprocessor.mean == [7, 8, 9]


@pytest.mark.parametrize("is_bgr", [True, False])
def test_convert_makes_rgb_of_bgr(is_bgr, trunk, tmp_path, monkeypatch):
    numbers = {"mean": [1, 2, 3], "std": [4, 5, 6], "bgr_to_rgb": not is_bgr}
    model = {"backbone": RESNET, "data_preprocessor": numbers}
    meta = {"cfg": Config({"model": model}).pretty_text}
    file = published.save({"meta": meta, "state_dict": trunk}, tmp_path / "w.pth")
    # Without a warning of what it reverses.
    monkeypatch.setattr("mmssprl.weights.normalisation.say_once", pytest.fail)
    report = convert_weights(file, tmp_path / "out" / "w.pth")
    found = torch.load(report.weights, weights_only=True)
    expected = {**trunk, "conv1.weight": trunk["conv1.weight"].flip(1)} if is_bgr else trunk
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[key], value) for key, value in expected.items())


def test_convert_does_not_replace_its_input(trunk, tmp_path):
    file = published.save(trunk, tmp_path / "w.pth")
    with pytest.raises(ValueError, match=r"must not be the input file, .*w\.pth"):
        convert_weights(file, file, overwrite=True)


def test_convert_does_not_replace_a_description(trunk, tmp_path):
    file = published.save(trunk, tmp_path / "w.pth")
    (tmp_path / "out.json").write_text("mine")
    with pytest.raises(FileExistsError, match=r"out\.json.*overwrite"):
        convert_weights(file, tmp_path / "out.pth")
    assert (tmp_path / "out.json").read_text() == "mine"
