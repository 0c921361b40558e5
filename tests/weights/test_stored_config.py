"""What a checkpoint says of its training: a config as text, or timm's options."""

from argparse import Namespace

import pytest
import torch
from mmengine.config import Config

from mmssprl.pixels import IMAGENET_MEAN, IMAGENET_STD
from mmssprl.weights import (
    build_backbone,
    find_config,
    find_normalisation,
    normalisation,
    write_description,
)
from mmssprl.weights.stored_config import (
    has_caffe_style,
    stored_normalisation,
    takes_bgr,
    training_record,
)

RESNET = {"type": "ResNet", "depth": 18}
NUMBERS = {"mean": [1.0, 2.0, 3.0], "std": [4.0, 5.0, 6.0]}
RGB = ((1, 2, 3), (4, 5, 6))
BGR = ((3, 2, 1), (6, 5, 4))


def save(text, folder, key="cfg"):
    file = folder / "w.pth"
    torch.save({"meta": {key: text}, "state_dict": {"a": torch.ones(1)}}, file)
    return file


def of_model(**preprocessor):
    return Config({"model": {"data_preprocessor": preprocessor, "x": {"mean": 1}}}).pretty_text


@pytest.fixture
def said(monkeypatch):
    lines = []
    monkeypatch.setattr(normalisation, "say_once", lines.append)
    return lines


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (of_model(**NUMBERS, bgr_to_rgb=True, type="DetDataPreprocessor", batch={"x": 1}), "cfg"),
        (of_model(**NUMBERS, type="mmssprl.PyramidPreprocessor"), "cfg"),
        (Config({"data_preprocessor": {**NUMBERS, "to_rgb": True}}).pretty_text, "cfg"),
        ("img_norm_cfg = dict(mean=[1, 2, 3], std=[4, 5, 6], to_rgb=True)", "config"),
        (of_model(**NUMBERS, type="MyPyramidPreprocessor"), "cfg"),
    ],
)
def test_numbers_of_rgb(text, key, tmp_path, said):
    found = find_normalisation(str(save(text, tmp_path, key)), RESNET)
    assert (found[:2], found.source, said) == (RGB, "the config in w.pth", [])


@pytest.mark.parametrize("flag", [{}, {"bgr_to_rgb": False}])
def test_numbers_of_bgr_are_reversed_with_a_warning(flag, tmp_path, said):
    text = of_model(**NUMBERS, **flag, type="DetDataPreprocessor")
    assert find_normalisation(str(save(text, tmp_path)), RESNET)[:2] == BGR
    assert len(said) == 1
    assert "w.pth was trained on BGR images" in said[0]


def test_an_option_alone_says_bgr(tmp_path):
    text = "img_norm_cfg = dict(mean=[1, 2, 3], std=[4, 5, 6], to_rgb=False)"
    assert stored_normalisation(save(text, tmp_path, "config"))[:2] == BGR


def test_numbers_of_mmselfsup_are_shares_of_white_for_rgb(tmp_path):
    text = "img_norm_cfg = dict(mean=[0.2, 0.4, 0.6], std=[0.4, 0.2, 0.6])"
    found = stored_normalisation(save(text, tmp_path, "config"))
    assert found.mean == pytest.approx((51, 102, 153))
    assert found.std == pytest.approx((102, 51, 153))


@pytest.mark.parametrize(
    ("preprocessor", "expected", "is_bgr"),
    [
        ({"type": "PoseDataPreprocessor"}, 1, True),
        ({"to_rgb": True}, 1, False),
        ({"type": "PyramidPreprocessor"}, 1, False),
        ({}, 255, False),
    ],
)
def test_images_that_are_left_as_they_are(preprocessor, expected, is_bgr, tmp_path):
    file = save(of_model(mean=[0, 0, 0], std=[1, 1, 1], **preprocessor), tmp_path)
    assert stored_normalisation(file)[:2] == ((0,) * 3, (expected,) * 3)
    assert takes_bgr(file) == is_bgr


@pytest.mark.parametrize("std", ["[4, 0, 6]", "[4, -5, 6]", "[4, 1e999, 6]"])
def test_numbers_that_cannot_normalise_are_refused(std, tmp_path):
    file = save(f"img_norm_cfg = dict(mean=[1, 2, 3], std={std}, to_rgb=True)", tmp_path)
    with pytest.raises(ValueError, match=r"std of the config in w.pth must be finite and std abo"):
        stored_normalisation(file)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a = dict(mean=[1, 2, 3], std=[4, 5, 6])",
        of_model(mean=[1.0], std=[2.0]),
        of_model(**NUMBERS, pixels={"channels": 3, "dtype": "uint16"}),
        of_model(**NUMBERS) + "\ndata_preprocessor = dict(mean=[7, 8, 9], std=[4, 5, 6])",
        "data_preprocessor = dict(mean=[1, 2, 3], std=[open('x'), 5, 6])",
        "data_preprocessor = (",
        3,
        None,
    ],
    ids=ascii,
)
def test_no_numbers(text, tmp_path):
    assert stored_normalisation(save(text, tmp_path)) is None


@pytest.mark.parametrize("content", [b"", b"x = 1"])
def test_a_damaged_file_has_none(content, tmp_path):
    (tmp_path / "w.pth").write_bytes(content)
    assert stored_normalisation(tmp_path / "w.pth") is None


def test_a_checkpoint_away_from_its_run_keeps_its_numbers(tmp_path):
    file = save(of_model(**NUMBERS, to_rgb=True), tmp_path)
    vit = {"type": "TimmBackbone", "model_name": "test_vit"}
    for weights in (str(file), f"timm/test_vit:{file}"):
        assert find_normalisation(weights, vit)[:2] == RGB


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (IMAGENET_MEAN, IMAGENET_STD)),
        ({"std": [4.0, 5.0, 6.0]}, (IMAGENET_MEAN, RGB[1])),
        ({"mean": [1.0, 2.0, 3.0]}, (RGB[0], IMAGENET_STD)),
    ],
)
@pytest.mark.parametrize("kind", ["PyramidPreprocessor", "mmssprl.models.PastePreprocessor"])
def test_our_preprocessors_take_imagenets_numbers_if_a_config_sets_none(
    kind, given, expected, tmp_path
):
    file = save(of_model(type=kind, hue=0.1, **given), tmp_path)
    vit = {"type": "TimmBackbone", "model_name": "test_vit"}  # timm's numbers are others
    assert find_normalisation(str(file), vit)[:2] == expected


@pytest.mark.parametrize("more", [{"pixels": {"channels": 4}}, {"mean": None}, {"std": [1, 2]}])
def test_other_numbers_of_ours_are_not_replaced_by_imagenets(more, tmp_path):
    text = of_model(type="PyramidPreprocessor", **more)
    assert stored_normalisation(save(text, tmp_path)) is None


@pytest.mark.parametrize(
    ("preprocessor", "is_bgr"),
    [
        ({**NUMBERS, "bgr_to_rgb": False}, True),
        ({**NUMBERS, "type": "DetDataPreprocessor"}, True),
        ({**NUMBERS, "bgr_to_rgb": True}, False),
        ({"mean": [0.2, 0.4, 0.6], "std": [1, 1, 1], "to_rgb": False}, False),
        ({"bgr_to_rgb": False}, False),
    ],
)
def test_a_config_says_the_order_of_channels(preprocessor, is_bgr, tmp_path):
    assert takes_bgr(save(of_model(**preprocessor), tmp_path)) == is_bgr


@pytest.mark.parametrize(("name", "mean"), [("epoch_7.pth", [1, 2, 3]), ("run.pth", [7, 8, 9])])
def test_a_checkpoint_beside_the_description_of_a_run_is_followed(name, mean, tmp_path, said):
    cfg = Config({"model": {"backbone": {**RESNET, "base_channels": 8, "stem_channels": 8}}})
    state = build_backbone(cfg).state_dict()
    text = of_model(**NUMBERS, bgr_to_rgb=True)
    torch.save({"meta": {"cfg": text}, "state_dict": state}, tmp_path / name)
    cfg.model.data_preprocessor = {"mean": [7, 8, 9], "std": [1, 1, 1]}
    write_description(tmp_path / ("run.pth" if name == "run.pth" else "run_backbone.pth"), cfg)

    found = find_config(str(tmp_path / name), None)
    assert found.model.data_preprocessor.mean == mean
    if name == "epoch_7.pth":
        assert "as the config in it says, but run_backbone.json next to it says" in said[0]
    else:
        assert not said


@pytest.mark.parametrize(
    ("backbones", "is_caffes"),
    [
        ([{"style": "caffe", "type": "ResNet"}], True),
        ([{"style": "caffe", "depth": 50}, {"lr_mult": 0.1}], True),  # of the optimizer
        ([{"style": "pytorch", "depth": 50}], False),
        ([{"depth": 50}], False),
        ([{"style": "caffe", "depth": 50}, {"style": "pytorch", "depth": 50}], False),
        ([{"style": ["caffe"], "depth": 50}], False),
        ([], False),
    ],
)
def test_a_config_says_the_style_of_its_resnet(backbones, is_caffes, tmp_path):
    parts = {f"part{i}": {"backbone": each} for i, each in enumerate(backbones)}
    assert has_caffe_style(save(Config({"model": parts}).pretty_text, tmp_path)) == is_caffes


HALF = [0.5, 0.5, 0.5]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (Namespace(model="resnet18.mine", mean=HALF, std=HALF), ("resnet18.mine", HALF)),
        (Namespace(model="resnet18", mean=None, std=HALF), ("resnet18", None)),
        (Namespace(model="mae_vit_base_patch16", mean=HALF, std=HALF), None),
        (Namespace(arch="resnet18"), None),
        ({"model": "resnet18"}, None),
    ],
)
def test_timms_training_says_network_and_numbers(options, expected, tmp_path):
    torch.save({"args": options, "state_dict": {}}, tmp_path / "w.pth")
    found = training_record(tmp_path / "w.pth")
    assert expected == (found and (found.name, found.record and found.record["mean"]))
