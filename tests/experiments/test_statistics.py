import pytest
from scipy import stats

from mmssprl.experiments.statistics import compare_all, estimate, holm, paired, welch

A = [30.1, 28.4, 31.7, 29.9, 30.8]


def test_the_interval_is_students():
    found = estimate(A)
    low, high = stats.t.interval(0.95, 4, found.mean, stats.sem(A))
    assert found.interval == pytest.approx((low, high))


def test_differences_are_welchs():
    found, p = welch(A, [28.0, 27.1, 30.6])
    theirs = stats.ttest_ind(A, [28.0, 27.1, 30.6], equal_var=False)
    assert found.interval == pytest.approx(tuple(theirs.confidence_interval(0.95)))
    assert p == pytest.approx(theirs.pvalue)


def test_paired_differences_are_of_each_seed():
    values, reference = [31.0, 25.0, 28.5, 40.0], [30.0, 23.0, 28.0, 38.0]
    found, p = paired(values, reference)
    own = stats.ttest_rel(values, reference)
    low, high = own.confidence_interval()
    assert found.mean == pytest.approx(1.375)
    assert found.interval == pytest.approx((low, high))
    assert p == pytest.approx(own.pvalue)


def test_paired_differences_of_one_seed_or_without_a_spread():
    found, p = paired([2.0], [1.0])
    assert (found.mean, found.half_width, p) == (1.0, None, None)
    assert paired([2.0, 3.0], [1.0, 2.0]) == welch([2.0, 3.0], [1.0, 2.0])
    assert paired([2.0, 3.0], [2.0, 3.0])[1] == 1
    # Both rows are right in one of seven images more.
    sevenths = ([500 / 7, 300 / 7], [400 / 7, 200 / 7])
    assert paired(*sevenths) == welch(*sevenths)


@pytest.mark.filterwarnings("error")
def test_differences_of_one_seed_or_without_a_spread():
    difference, p = welch(A, [28.0])
    assert difference.mean == pytest.approx(2.18)
    assert (difference.half_width, difference.interval, p) == (None, None, None)
    # Without any spread they are certain.
    assert welch([2.0, 2.0], [1.0, 1.0, 1.0])[1] == 0
    assert welch([2.0, 2.0], [2.0, 2.0])[1] == 1
    # Nor is there a warning of spread on one side alone.
    found, p = welch([31.0, 32.0, 36.0], [30.1] * 3)
    assert found.half_width == pytest.approx(estimate([31.0, 32.0, 36.0]).half_width)
    assert p == pytest.approx(stats.ttest_1samp([31.0, 32.0, 36.0], 30.1).pvalue)


def test_holm_by_hand():
    # Ascending: 0.01 x 4, 0.02 x 3, 0.03 x 2 = 0.06, 0.2 x 1; 0.02 x 3 = 0.06 already.
    assert holm([0.03, 0.01, 0.2, 0.02]) == pytest.approx([0.06, 0.04, 0.2, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    # What comes after one that is kept is kept, too, though 0.026 x 2 alone would be larger.
    assert holm([0.03, 0.026, 0.001]) == pytest.approx([0.052, 0.052, 0.003])
    assert holm([]) == []


@pytest.fixture
def found():
    """Differences from SS-PRL, with which `good` and `one` compete."""
    scores = {"ssprl": [20.0, 21.0, 22.0, 20.5], "bound": [30.0, 31.0, 32.1, 30.4], "one": [30.0]}
    return compare_all({**scores, "good": [25.0, 26.1, 26.9]}, "ssprl", ["good", "one"])


def test_verdicts_are_for_competitors_alone(found):
    assert found["good"].adjusted_p == found["good"].p  # one with a p is tested
    verdicts = {name: comparison.verdict for name, comparison in found.items()}
    assert verdicts == {"bound": "", "one": "", "good": "better"}


def test_nothing_follows_from_one_seed(found):
    assert found["one"].cells == ("+9.1 (one seed, nothing follows)", "", "")
