"""Times as people write them, and what saves time."""

import pytest
from recipes import CPU, choose

from mmssprl.console.durations import parse_duration
from mmssprl.errors import UserValueError
from mmssprl.pretraining.budget import operations, what_helps


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90m", 5400),
        ("2h", 7200),
        ("1d", 86_400),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("1 H 30 min", 5400),
        ("45s", 45),
    ],
)
def test_durations(text, seconds):
    assert parse_duration(text, "--budget") == seconds


@pytest.mark.parametrize("text", ["", "2", "h", "2 hours", "-2h", "1h30", "0m", "2h!", "1e3h"])
def test_nonsense(text):
    with pytest.raises(UserValueError, match=r"such as 90m, 2h, 1h30m or 1d, but got '"):
        parse_duration(text, "--budget")


def test_operations_are_those_of_the_convolutions():
    layout = {"image_px": 224, "levels": [], "num_small": 0}
    recipe = choose("swav", layout=layout, backbone="resnet18")
    # He et al., Table 1: 1.8e9 multiply-adds at 224 px, two operations each; two views.
    assert operations(recipe) == pytest.approx(2 * 2 * 1.81e9, rel=0.01)


def test_what_helps_is_told_by_its_share():
    recipe = choose(**CPU)
    others = {
        "--image-px 80": choose(**CPU, image_px=80),
        "--backbone resnet18": choose(**CPU, backbone="resnet18"),
        "--backbone resnet50": recipe,
    }
    text = what_helps(recipe, others)
    assert text == (
        "more epochs fit if the backbone computes less than now: 38 % with --image-px 80 or 45 % "
        "with --backbone resnet18; no GPU was found"
    )
    assert what_helps(recipe, {"--backbone resnet50": recipe}) == "no GPU was found"
    assert what_helps(choose(), {}) == ""
