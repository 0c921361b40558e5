import pytest

from mmssprl.errors import UserValueError
from mmssprl.experiments.compare.pace import epochs_for_equal


def pace(key, seconds, passes=0.0):
    return {
        "seconds": {key: seconds, "ssprl": 0.5},
        "flops": {key: 3 * 10**9, "ssprl": 10**9},
        "passes": {key: passes},
    }


@pytest.mark.parametrize(
    ("seconds", "epochs"),
    [(0.75, 7), (0.7, 7), (0.6, 8), (9.0, 1)],  # of 6.67, 7.14, 8.33 and 0.56
)
def test_equal_time_is_the_nearest_number_of_epochs(seconds, epochs):
    assert epochs_for_equal("time", 10, pace("swav", seconds), "swav", 5) == epochs
    assert epochs_for_equal("flops", 10, pace("swav", seconds), "swav", 5) == 3  # of 3.33


def test_the_pass_of_a_teacher_counts_in_equal_time():
    measured = pace("distill", 0.5, passes=10.0)
    assert epochs_for_equal("time", 10, measured, "distill", 5) == 6  # 10 - 20 / 5
    assert epochs_for_equal("flops", 10, measured, "distill", 5) == 3
    with pytest.raises(UserValueError, match=r"4 epochs of SS-PRL are 0.00 of .* --epochs to 5"):
        epochs_for_equal("time", 4, measured, "distill", 5)
