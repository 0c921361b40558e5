"""How often and by how many images a training is probed, by given times."""

import pytest
import torch

from mmssprl.evaluation.probe_data import LabelledSplit
from mmssprl.evaluation.probe_share import (
    ProbePace,
    choose_images,
    choose_interval,
    least_images,
    part_of,
    share_of,
)


def pace(fixed_s=2.0, image_s=0.01, least=250, num_first=1):
    """22 s with 1,500 + 500 images."""
    return ProbePace(fixed_s, image_s, 6000, (1500, 500), least, num_first)


def split(labels):
    return LabelledSplit("train", [f"{i}.jpg" for i in range(len(labels))], labels)


@pytest.mark.parametrize(
    ("probe_s", "epochs", "spent_s", "interval"),
    [
        (0, 10, 0, 1),
        (1.5, 10, 0, 1),  # of 10 epochs 15 s may be taken
        (1.5, 10, 1.5, 2),  # 13.5 s: 10 are too many, 5 are few
        (3.5, 10, 3.5, 4),  # 3, after epochs 4, 8 and 10
        (15, 10, 15, 10),  # the last one is done in any case
        (15, 10, 45, 10),
    ],
)
def test_the_interval_lets_all_probes_take_their_share(probe_s, epochs, spent_s, interval):
    assert choose_interval(probe_s, 98.51, epochs, spent_s) == interval


def test_images_are_given_up_for_some_probes_in_between():
    # 120 s for 6 probes: 20 s each, so 1,800 images, 500 of the other split.
    assert choose_images(pace(), 98.51, 80) == 1300
    assert choose_images(pace(num_first=3), 98.51, 80) == 800  # 8 probes of 15 s
    assert choose_images(pace(), 98.51, 88) == 1500  # all
    assert choose_images(pace(), 9.851, 880) == 1500
    # With the least of 7 s, 3 probes fit into 24 s: 8 s each, 300 + 300.
    assert choose_images(pace(), 98.51, 16) == 300
    # Before and after alone: 9 s each.
    assert choose_images(pace(), 98.51, 12) == 350
    assert choose_images(pace(), 98.51, 5) == 250  # 3.75 s each are too little for any part
    # Where images cost nothing none are given up.
    assert choose_images(pace(fixed_s=9.0, image_s=0.0), 98.51, 12) == 1500


@pytest.mark.parametrize("num_first", [1, 2, 3])
@pytest.mark.parametrize("epochs", [1, 2, 7, 60, 400])
@pytest.mark.parametrize("epoch_s", [3.0, 40.0, 1000.0, 20_000.0])
def test_all_probes_take_their_share_if_the_least_images_allow_it(num_first, epochs, epoch_s):
    given = pace(num_first=num_first)
    most = choose_images(given, epoch_s, epochs)
    probe_s = given.seconds(most)
    interval = choose_interval(probe_s, epoch_s, epochs, num_first * probe_s)
    num_probes = num_first + -(-epochs // interval)
    if share_of((num_first + 1) * given.seconds(250), epoch_s, epochs) <= 0.015:
        assert share_of(num_probes * probe_s, epoch_s, epochs) <= 0.015 + 1e-9
    else:
        assert (most, num_probes) == (250, num_first + 1)


def test_the_least_images_have_some_of_each_class():
    common = torch.ones(2000, 1, dtype=torch.int8)
    assert least_images([split(common), split(common[:100])]) == 250
    rare = torch.zeros(2000, 1, dtype=torch.int8)
    rare[::500] = 1  # 4 of 2,000: one is expected among 500
    least = least_images([split(torch.cat([common, rare], dim=1)), split(common.repeat(1, 2))])
    assert 250 < least < 2000
    counts = [(part_of(split(rare), most).labels == 1).sum() for most in (least - 1, least)]
    assert counts == [0, 1]
    rare[:] = 0  # in no image at all
    assert least_images([split(torch.cat([common, rare], dim=1))]) == 250


def test_a_smaller_part_lies_within_a_larger_one():
    whole = split(torch.arange(40).view(40, 1))
    few, many = part_of(whole, 7), part_of(whole, 20)
    assert (len(few.paths), len(many.paths)) == (7, 20)
    assert set(few.paths) < set(many.paths)
    assert [f"{int(label)}.jpg" for label in few.labels] == few.paths
    assert part_of(whole, 40) is whole
