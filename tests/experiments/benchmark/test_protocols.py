import math
import re

import pytest
from mmengine.config import Config

from mmssprl.config.shipped import shipped
from mmssprl.experiments.benchmark.protocols import (
    DATA_PREFIX,
    GROUPS,
    METRICS,
    PROTOCOLS,
    choose_protocols,
)

CASES = [(size, p) for size, protocols in PROTOCOLS.items() for p in protocols]


@pytest.mark.parametrize(("size", "protocol"), CASES, ids=str)
def test_the_config_is_that_of_the_protocol_and_of_the_size(size, protocol):
    cfg = Config.fromfile(shipped(protocol.config))
    if protocol.name.startswith("semisup-"):
        fraction = cfg.train_dataloader.dataset.get("fraction", 1.0)
        assert f"semisup-{100 * fraction:.0f}" == protocol.name
    for split in ("train", "test"):
        root = cfg[f"{split}_dataloader"].dataset.data_root
        assert root.startswith(f"{DATA_PREFIX[size]}/")
    shared = 0
    if size == "paper":
        gpus, images = map(int, re.search(r"_(\d+)xb(\d+)", protocol.config).groups())
        assert cfg.train_dataloader.batch_size == images
        shared = 0 if gpus == 1 else gpus * images
    assert protocol.images_per_step == shared


@pytest.mark.parametrize(
    ("name", "found", "expected"),
    [
        (
            "detection",  # mmdet tells fractions, and -1 where there is no such object
            {"coco/bbox_mAP": 0.123, "coco/bbox_mAP_50": -1.0, "coco/bbox_mAP_75": math.nan}
            | {"coco/bbox_mAP_s": 0.5, "coco/segm_mAP": 0.0, "coco/segm_mAP_50": 0.456},
            {"AP": 12.3, "mask_AP": 0.0, "mask_AP50": 45.6},
        ),
        ("detection", {}, dict.fromkeys(METRICS["detection"], 0.0)),  # nothing was detected
        ("linear-voc", {"multi-label/mAP": 81.25}, {"mAP": 81.25}),
        ("segmentation", {"aAcc": 9.0}, {}),
    ],
)
def test_metrics_are_in_percent_without_what_is_not_known(name, found, expected):
    protocol = next(p for p in PROTOCOLS["paper"] if p.name == name)
    metrics = protocol.read_metrics(found)
    assert metrics == pytest.approx(expected)
    assert list(metrics) == list(expected)


def test_groups_and_names_are_chosen_in_the_order_of_the_tables():
    def names(*asked):
        return [protocol.name for protocol in choose_protocols(*asked)]

    assert names("paper", None) == [*METRICS]
    assert names("coco128", None) == [name for name in METRICS if name != "semisup-1"]
    assert names("scenes", ["linear"]) == ["linear-coco"]
    expected = ["linear-coco", "linear-voc", "detection"]
    assert names("paper", ["detection", "linear", "linear-coco"]) == expected
    assert {name for names in GROUPS.values() for name in names} <= set(METRICS)
    with pytest.raises(ValueError, match="'scenes' .* linear, semisup, .*, but got 'fcn'"):
        choose_protocols("scenes", ["linear", "fcn"])
