import pytest

from mmssprl.experiments.compare.tuning import choose, factors_to_try

THIRD, NINTH = 1 / 3, 1 / 9


def scores(**means):
    names = {"ninth": NINTH, "third": THIRD, "one": 1.0, "three": 3.0, "nine": 9.0}
    return {names[name]: [mean - 0.01, mean, mean + 0.01] for name, mean in means.items()}


@pytest.mark.parametrize(
    ("found", "factors"),
    [
        ({}, (THIRD, 1.0, 3.0)),
        (scores(third=0.5, one=0.4), (THIRD, 1.0, 3.0)),  # not complete yet
        (scores(third=0.3, one=0.4, three=0.4), (THIRD, 1.0, 3.0)),  # of equal ones, 1
        (scores(third=0.5, one=0.4, three=0.4), (NINTH, THIRD, 1.0, 3.0)),
        (scores(third=0.2, one=0.4, three=0.5), (THIRD, 1.0, 3.0, 9.0)),
        (scores(ninth=0.6, third=0.5, one=0.4, three=0.4), (NINTH, THIRD, 1.0, 3.0)),  # the last
    ],
)
def test_more_is_tried_while_the_best_is_on_the_border(found, factors):
    assert factors_to_try(found) == factors


def test_the_best_is_taken_unless_its_lead_is_below_its_standard_error():
    # s = 0.01 on both sides: sqrt(2 x 0.0001 / 3) = 0.00816.
    assert choose(scores(third=0.3, one=0.4, three=0.41, nine=0.2)) == 3.0
    assert choose(scores(third=0.3, one=0.4, three=0.408, nine=0.2)) == 1.0
    assert choose(scores(third=0.3, one=0.4, three=0.4)) == 1.0
    # Nothing is chosen before all seeds of all factors are there.
    rates = scores(third=0.3, one=0.4, three=0.5)
    assert choose(rates) is None  # 9 is still to be tried
    rates[9.0] = [0.2, 0.2]
    assert choose(rates) is None
