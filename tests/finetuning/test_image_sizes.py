"""The size of the images of a fine-tuning, of networks that do not take all sizes."""

import pytest
from helpers.datasets.labelled_folders import write_class_folders
from mmengine.config import Config

from mmssprl.datasets.labels import find_labels
from mmssprl.finetuning.config import finetune_config, taken_px
from mmssprl.finetuning.options import FinetuneOptions


def test_a_network_of_one_size_is_trained_at_it(tmp_path):
    data = find_labels(write_class_folders(tmp_path / "data", per_class=4), "classify")
    options = FinetuneOptions(image_px=32)
    cfg, _ = finetune_config("helpers.models.odd_nets:of_one_size", data, "classify", options)
    assert cfg.model.head.in_channels == 5
    assert "image_px" not in cfg


@pytest.mark.parametrize(("asked", "expected"), [(None, 160), (144, 144)])
def test_a_network_that_does_not_take_the_usual_size_gets_its_own(asked, expected):
    backbone = {"type": "TimmBackbone", "model_name": "test_vit"}
    backbone["options"] = {"dynamic_img_size": True}  # of multiples of 16
    rows = {}
    cfg = Config({"model": {"backbone": backbone}})
    assert taken_px(cfg, asked or 100, FinetuneOptions(image_px=asked), rows) == expected
    assert rows == ({} if asked else {"images": ("160 px", "the network does not take 100 px")})


def test_an_asked_size_that_the_network_does_not_take_is_refused():
    cfg = Config({"model": {"backbone": {"type": "TimmBackbone", "model_name": "test_vit"}}})
    match = r"images of 100 px, but raises AssertionError: .*\(--image-px\), such as 160"
    with pytest.raises(ValueError, match=match):
        taken_px(cfg, 100, FinetuneOptions(image_px=100), {})


def test_the_error_at_the_own_size_of_a_network_is_shown():
    """An error for another reason than the size."""
    backbone = {"type": "TimmBackbone", "model_name": "test_vit", "options": {"in_chans": 4}}
    cfg = Config({"model": {"backbone": backbone}})
    with pytest.raises(ValueError, match=r"\(2, 3, 160, 160\), but .*; give .*\(--image-px\)\.$"):
        taken_px(cfg, 100, FinetuneOptions(), {})
