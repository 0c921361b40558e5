import ast
import math
import re
from pathlib import Path

import pytest
from mmengine.config import Config

from mmssprl.cli import build_parser
from mmssprl.config.shipped import shipped
from mmssprl.experiments.benchmark.protocols import (
    DATA_PREFIX,
    GROUPS,
    PROTOCOLS,
    REMEDIES,
    Protocol,
    choose_protocols,
)
from mmssprl.experiments.benchmark.results import METRICS, TransferResult

BENCHMARKS = Path(__file__).parents[3] / "configs" / "benchmarks"
VARIANTS = {"detection/mask-rcnn_resnet50-fpn_8xb2-90k_coco14.py": "90k iterations as released"}
"""Configs that no protocol of a table names, and what their docstrings say of the difference."""

CASES = [(size, p) for size, protocols in PROTOCOLS.items() for p in protocols]
each_config = pytest.mark.parametrize(
    ("size", "protocol"), CASES, ids=lambda value: getattr(value, "name", value)
)


def test_every_config_belongs_to_one_protocol_or_is_a_documented_variant():
    used = [shipped(protocol.config).resolve() for _, protocol in CASES]
    assert len(used) == len(set(used)) == 18
    rest = set(BENCHMARKS.rglob("*.py")) - set(used)
    assert {str(path.relative_to(BENCHMARKS)) for path in rest} == set(VARIANTS)
    for name, words in VARIANTS.items():
        assert words in ast.get_docstring(ast.parse((BENCHMARKS / name).read_text()))


@pytest.mark.parametrize(
    ("size", "absent"),
    [
        ("paper", set()),
        ("scenes", {"linear-voc", "semisup-1"}),
        ("coco128", {"semisup-1"}),
    ],
)
def test_protocols_are_in_the_order_of_the_tables(size, absent):
    names = [protocol.name for protocol in PROTOCOLS[size]]
    assert names == [name for name in METRICS if name not in absent]


@each_config
def test_names_of_the_config_tell_the_protocol(size, protocol):
    kind, _, variant = protocol.name.partition("-")
    folder = {"linear": "classification"}.get(kind, kind)
    path = Path(protocol.config)
    assert path.parts[:3] == ("configs", "benchmarks", folder)
    if kind == "semisup":
        assert f"-{variant}percent_" in path.stem
        assert Config.fromfile(shipped(protocol.config)).train_dataloader.dataset.get(
            "fraction", 1.0
        ) == pytest.approx(int(variant) / 100)
    data = {"paper": r"coco14|voc07|voc12aug-512x512", "scenes": "scenes", "coco128": r"\w+128"}
    assert re.search(f"_({data[size]})$", path.stem)
    assert ("voc" in path.stem) == (
        protocol.name == "linear-voc" or (kind == "segmentation" and size != "scenes")
    )


@each_config
def test_metrics_are_those_of_the_tables(size, protocol):
    assert tuple(protocol.metrics) == METRICS[protocol.name]
    perfect = {theirs: 100 / factor for theirs, factor in protocol.metrics.values()}
    found = protocol.read_metrics(perfect)
    assert found == dict.fromkeys(METRICS[protocol.name], 100.0)
    assert TransferResult(protocol.name, "w", 0, found, 1.0, "done").metrics == found


@each_config
def test_images_per_step(size, protocol):
    cfg = Config.fromfile(shipped(protocol.config))
    if size != "paper":
        assert protocol.images_per_step == 0
        return
    gpus, images = map(int, re.search(r"_(\d+)xb(\d+)", protocol.config).groups())
    assert cfg.train_dataloader.batch_size == images
    assert protocol.images_per_step == (0 if gpus == 1 else gpus * images)
    assert (gpus > 1) == (protocol.name in ("detection", "segmentation"))


@each_config
def test_data_are_below_the_prefix_and_have_a_remedy(size, protocol):
    cfg = Config.fromfile(shipped(protocol.config))
    prefix = DATA_PREFIX[size]
    for split in ("train", "test"):
        root = cfg[f"{split}_dataloader"].dataset.data_root
        assert root.startswith(f"{prefix}/")
        part = root.removeprefix(f"{prefix}/")
        remedies = [remedy for name, remedy in REMEDIES[size].items() if part.startswith(name)]
        assert len(remedies) == 1
        _, _, command = remedies[0].format("there").partition("python -m mmssprl ")
        if size != "coco128":
            words = command.split()
            build_parser().parse_args(words)
            assert words[-1].split("/")[0] == "there"


def test_detection_metrics_are_in_percent_without_what_is_not_known():
    detection = next(p for p in PROTOCOLS["scenes"] if p.name == "detection")
    found = detection.read_metrics(
        {
            "coco/bbox_mAP": 0.123,
            "coco/bbox_mAP_50": -1.0,  # mmdet: there is no such object
            "coco/bbox_mAP_75": math.nan,
            "coco/bbox_mAP_s": 0.5,
            "coco/segm_mAP": 0.0,
            "coco/segm_mAP_50": 0.456,
        }
    )
    assert found == {"AP": pytest.approx(12.3), "mask_AP": 0.0, "mask_AP50": pytest.approx(45.6)}
    assert list(found) == ["AP", "mask_AP", "mask_AP50"]


def test_nothing_detected_is_an_ap_of_zero():
    detection = next(p for p in PROTOCOLS["scenes"] if p.name == "detection")
    names = ("AP", "AP50", "AP75", "mask_AP", "mask_AP50", "mask_AP75")
    assert detection.read_metrics({}) == dict.fromkeys(names, 0.0)


def test_percent_stay_percent():
    # mmpretrain's and mmseg's metrics are percent already.
    metrics = {p.name: p for p in PROTOCOLS["paper"]}
    assert metrics["linear-voc"].read_metrics({"multi-label/mAP": 81.25}) == {"mAP": 81.25}
    assert metrics["segmentation"].read_metrics({"mIoU": 0.5, "aAcc": 9.0}) == {"mIoU": 0.5}
    assert metrics["segmentation"].read_metrics({"aAcc": 9.0}) == {}


class TestChooseProtocols:
    @pytest.mark.parametrize("size", PROTOCOLS)
    def test_none_is_all(self, size):
        assert choose_protocols(size, None) == PROTOCOLS[size]

    @pytest.mark.parametrize(
        ("size", "asked", "expected"),
        [
            ("paper", ["linear"], ["linear-coco", "linear-voc"]),
            ("scenes", ["linear"], ["linear-coco"]),
            ("paper", ["semisup"], ["semisup-1", "semisup-10", "semisup-100"]),
            ("coco128", ["semisup"], ["semisup-10", "semisup-100"]),
            ("paper", ["detection", "linear-voc"], ["linear-voc", "detection"]),
            ("paper", ["linear", "linear-coco", "linear"], ["linear-coco", "linear-voc"]),
        ],
    )
    def test_groups_and_names_in_the_order_of_the_tables(self, size, asked, expected):
        chosen = choose_protocols(size, asked)
        assert [protocol.name for protocol in chosen] == expected
        assert all(isinstance(p, Protocol) and p in PROTOCOLS[size] for p in chosen)

    def test_unknown_name(self):
        message = (
            "protocols of size 'scenes' are linear, semisup, linear-coco, semisup-10, "
            "semisup-100, detection, segmentation, but got 'fcn'."
        )
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            choose_protocols("scenes", ["linear", "fcn"])

    def test_name_of_another_size(self):
        with pytest.raises(ValueError, match="size 'coco128' are .*, but got 'semisup-1'"):
            choose_protocols("coco128", ["semisup-1"])

    def test_groups_hold_names_of_protocols(self):
        assert {name for names in GROUPS.values() for name in names} <= set(METRICS)
