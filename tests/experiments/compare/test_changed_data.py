"""Labels and images that have changed since the first scores of a work dir."""

import json

import pytest
from helpers.experiments.tiny_compare import comparisons_in


@pytest.fixture
def compare(tmp_path):
    return comparisons_in(tmp_path)


def correct_a_label(data):
    path = next(data.rglob("*train*.json"))
    path.write_text(path.read_text().replace('"category_id": 3', '"category_id": 7'))


def replace_image_of(split):
    def change(data):
        image = next(data.glob(f"{split}2014/*.jpg"))
        image.write_bytes(image.read_bytes() + b"0")

    return change


def leave_out_a_test_image(data):
    path = next(data.rglob("*val*.json"))
    content = json.loads(path.read_text())
    lost = content["images"].pop()
    content["annotations"] = [a for a in content["annotations"] if a["image_id"] != lost["id"]]
    path.write_text(json.dumps(content))


@pytest.mark.parametrize("row", ["swav:weights={}", "distill:teacher={}"])
def test_changed_weights_are_refused_beside_the_scores_of_the_former(row, compare):
    weights = compare.work_dir.with_name("start.pth")
    weights.write_bytes(b"former")
    row = row.format(weights)
    compare(methods=[row])
    (compare.work_dir / "runs/random-6ep").mkdir(parents=True)
    compare(methods=["swav"])  # keeps the digest
    weights.write_bytes(b"other")
    with pytest.raises(ValueError, match=r"same weights\..*start.pth.* it has changed since"):
        compare(methods=[row])


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (leave_out_a_test_image, r"labels\.val"),
        (correct_a_label, r"labels\.train-"),
        (replace_image_of("train"), r"images\.train-"),
        (replace_image_of("val"), r"images\.val"),
    ],
)
def test_changed_data_are_refused_beside_the_scores_of_the_others(change, what, compare):
    compare()
    (compare.work_dir / "runs/random-6ep").mkdir(parents=True)
    change(compare.data)
    with pytest.raises(ValueError, match=rf"same {what}.* it has changed since .*work-dir"):
        compare()
