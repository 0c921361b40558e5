from mmssprl.experiments.compare.tuning import choose


def scores(third, one, three):
    found = {1 / 3: third, 1.0: one, 3.0: three}
    return {factor: [mean - 0.01, mean, mean + 0.01] for factor, mean in found.items()}


def test_the_best_is_taken_unless_its_lead_is_below_its_standard_error():
    # s = 0.01 on both sides: sqrt(2 x 0.0001 / 3) = 0.00816.
    assert choose(scores(0.3, 0.4, 0.41)) == 3.0
    assert choose(scores(0.3, 0.4, 0.408)) == 1.0
    assert choose(scores(0.42, 0.4, 0.41)) == 1 / 3
    assert choose(scores(0.4, 0.4, 0.4)) == 1.0
    # Nothing is chosen before all seeds of all factors are there.
    rates = scores(0.3, 0.4, 0.5)
    del rates[3.0][0]
    assert choose(rates) is None
    assert choose({}) is None
