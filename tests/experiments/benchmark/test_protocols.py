import math
import re

import pytest
from helpers.experiments.tiny_benchmark import NARROW, protocol, save_backbone, transfer_run
from mmengine.config import Config

from mmssprl.config.shipped import shipped
from mmssprl.experiments.benchmark.protocols import (
    DATA_PREFIX,
    METRICS,
    PROTOCOLS,
    WORDS,
    WeightsRow,
    choose_protocols,
    find_weights,
)
from mmssprl.experiments.execute import Jobs, execute_runs

CASES = [(size, each) for size, protocols in PROTOCOLS.items() for each in protocols]


@pytest.mark.parametrize(("size", "case"), CASES, ids=str)
def test_a_config_fits_its_protocol(size, case):
    cfg = Config.fromfile(shipped(case.config))
    for split in ("train", "test"):
        root = cfg[f"{split}_dataloader"].dataset.data_root
        assert root.startswith(f"{DATA_PREFIX[size]}/")
    if case.name.startswith("semisup-"):
        fraction = cfg.train_dataloader.dataset.get("fraction", 1.0)
        assert f"semisup-{100 * fraction:.0f}" == case.name
    found = re.search(r"_(\d+)xb(\d+)", case.config)  # the small ones have none
    gpus, images = map(int, found.groups()) if found else (1, 0)
    assert not found or cfg.train_dataloader.batch_size == images
    assert case.images_per_step == (0 if gpus == 1 else gpus * images)


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
    metrics = protocol(name, "paper").read_metrics(found)
    assert metrics == pytest.approx(expected)
    assert list(metrics) == list(expected)


def test_protocols_are_chosen_in_the_order_of_the_tables():
    def names(*asked):
        return [each.name for each in choose_protocols(*asked)]

    assert names("paper", None) == [*METRICS]
    assert names("coco128", None) == [name for name in METRICS if name != "semisup-1"]
    assert names("scenes", ["linear"]) == ["linear-coco"]
    expected = ["linear-coco", "linear-voc", "detection"]
    assert names("paper", ["detection", "linear", "linear-coco"]) == expected


def test_an_unknown_protocol_is_refused():
    with pytest.raises(ValueError, match="'scenes' .* linear, semisup, .*, but got 'fcn'"):
        choose_protocols("scenes", ["linear", "fcn"])


def test_the_protocols_backbone_is_kept_without_a_description(tmp_path):
    file = tmp_path / "resnet.pth"
    file.touch()
    rows = [WeightsRow("random", "random", None), WeightsRow("resnet", str(file), None)]
    assert find_weights(["random", str(file)]) == rows


def test_words_take_the_backbone_of_the_files_unless_there_are_two(tmp_path):
    other = {**NARROW, "base_channels": 4}
    first = str(save_backbone(tmp_path / "a/a.pth"))
    second = tmp_path / "b/b.pth"
    files = [first, str(save_backbone(second, other))]
    assert [row.backbone for row in find_weights(files)] == [NARROW, other]
    for word in WORDS:
        assert [row.backbone for row in find_weights([word, first])] == [NARROW, NARROW]
        with pytest.raises(ValueError, match="need one backbone .* --work-dir"):
            find_weights([word, *files])


def test_names_of_folders_tell_equal_names_apart_or_are_refused(tmp_path, monkeypatch):
    names = ("a/backbone.pth", "b/backbone.pth", "c/other.pth", "c/random.pth")
    for name in (*names, "b/a/backbone.pth"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path / "a")
    files = ["backbone.pth", str(tmp_path / "b/backbone.pth"), "../c/other.pth", "../c/random.pth"]
    rows = find_weights(files)
    assert [row.name for row in rows] == ["a_backbone", "b_backbone", "other", "c_random"]
    assert [row.start for row in rows] == [str(tmp_path / name) for name in names]
    with pytest.raises(ValueError, match="a_backbone is there twice"):
        find_weights([*files, "../b/a/backbone.pth"])
    with pytest.raises(ValueError, match="random is there twice; rename"):
        find_weights(["random", "random"])


def test_a_run_without_metrics_is_a_failure(tmp_path):
    run = transfer_run(tmp_path)
    run.folder.mkdir()
    run.measured_file.write_text('{"accuracy/top1": 1.0, "multi-label/mAP": NaN}')
    [outcome] = execute_runs([run], Jobs(), lambda line: None).values()
    assert outcome.values == {}
    assert "none of the protocol's metrics" in outcome.reason
    assert list(run.folder.iterdir()) == []  # so that it starts again


def test_a_summary_is_the_main_metric_if_it_is_known(tmp_path):
    assert transfer_run(tmp_path).summary({"mAP": 50.0}) == "mAP 50.0 %"
    assert transfer_run(name="detection").summary({"AP50": 60.0}) == "done"
