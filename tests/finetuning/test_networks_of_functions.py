"""Networks of package.module:function in a fine-tuning: what is told, and what is refused."""

import pytest
from helpers.datasets.labelled_folders import write_class_folders

from mmssprl.datasets.labels import find_labels
from mmssprl.finetuning.config import finetune_config
from mmssprl.finetuning.options import FinetuneOptions


@pytest.mark.parametrize(
    ("name", "frozen"), [("partly_frozen", "4 of 6 parameters"), ("plain", None)]
)
def test_parts_that_a_function_has_frozen_are_a_row(name, frozen, tmp_path):
    data = find_labels(write_class_folders(tmp_path / "data", per_class=4), "classify")
    options = FinetuneOptions(image_px=32)
    _, rows = finetune_config(f"helpers.models.odd_nets:{name}", data, "classify", options)
    assert rows.get("frozen", (None,))[0] == frozen


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("created_once", "created_once must return a new network at each call"),
        ("half", r"\(2, 3, 64, 64\), but .*:half raises RuntimeError: .*; .*correct its function"),
        ("of_one_size", r":of_one_size raises RuntimeError.*; give a size .* \(--image-px\), or"),
    ],
)
def test_a_network_that_cannot_be_trained_is_refused(name, match, tmp_path):
    data = find_labels(write_class_folders(tmp_path / "data", per_class=4), "classify")
    options = FinetuneOptions(image_px=64)
    with pytest.raises(ValueError, match=match):
        finetune_config(f"helpers.models.odd_nets:{name}", data, "classify", options)
