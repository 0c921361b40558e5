"""What computes the figures that no rule derives, see ``listed``."""

import math
from statistics import fmean

from helpers.docs.derived import gain, read_rows, scores_of
from helpers.docs.figures import RESULTS
from scipy import stats

FORMS = "forms/photos/results.csv"
FLOPS = "forms/photos_flops/results.csv"
HALF_WIDTH = "forms/half_width/results.csv"
HELD_OUT_SCENES = "forms/held_out_scenes/results.csv"
HELD_OUT_PHOTOS = "forms/held_out_photos/results.csv"
LED = ("cells-alpha01", "cells-one-scale")
PLANNED = ("ssprl-small-sampled", "ssprl-shared", "ssprl-cells")
ADDED = ("cells-alpha01", "cells-one-scale", "cells-no-terms")
PHOTOS = "photos/results.csv"
SCENES = "scenes/results.csv"
GPU = "photos_gpu/results.csv"
RIVALS = "rivals/photos/results.csv"
OWN = "distillation/results.csv"
VARIANCE = "distillation/variance.csv"
PENALTIES = "archive/dense_penalties.csv"
CHOICES = "archive/choices_photos.csv"
UNCHANGED = "ssprl-small-sampled"
FASTEST = ("cells", "each-crop-64px")
HELD_OUT = {"name": "row", "split": "held-out"}
ABLATIONS = ("pyramid-only", "shared-prototypes", "cross-only")


def shown(decimals, *values):
    """Return numbers as they are written, without their signs."""
    return [f"{abs(value):.{decimals}f}" for value in values]


def mean_of(path, column, **wanted):
    """Return the mean of a column over some rows."""
    rows = [row for row in read_rows(RESULTS / path) if wanted.items() <= row.items()]
    return fmean(float(row[column]) for row in rows)


def paced(row, epochs):
    """Return the CPU seconds of a row by paces.csv, with the pass where there is one."""
    for each in read_rows(RESULTS / "distillation/paces.csv"):
        if each["row"] == row:
            steps_s = 70 * float(each["step_s"])
            passed = float(each["30_epochs_s"]) - 30 * steps_s
            return epochs * steps_s + passed
    raise KeyError(row)


def ratio(path, column, row, other, name="method", **wanted):
    """Return the mean of a column of one row, divided by the mean of another row."""
    own = mean_of(path, column, **{name: row}, **wanted)
    return own / mean_of(path, column, **{name: other}, **wanted)


def p_values(path, rows, reference):
    """Return p of Welch's test of each row against the reference."""
    others = scores_of(RESULTS / path, method=reference)
    found = []
    for row in rows:
        own = scores_of(RESULTS / path, method=row)
        found.append(float(stats.ttest_ind(own, others, equal_var=False).pvalue))
    return found


def difference_of_pages():
    """Return by how much runs of forms differ from the same ones of photos, at most."""
    found = []
    for method in ("swav-small", "ssprl-small-sampled"):
        own = scores_of(RESULTS / FORMS, method=method)
        others = scores_of(RESULTS / PHOTOS, method=method, budget="time")
        found += [abs(one - other) for one, other in zip(own, others, strict=True)]
    return max(found)


def holm(values):
    """Return p-values after Holm's correction, in their order."""
    adjusted = {}
    largest = 0.0
    for rank, value in enumerate(sorted(values)):
        largest = max(largest, min(1.0, (len(values) - rank) * value))
        adjusted[value] = largest
    return [adjusted[value] for value in values]


def continued(method):
    """Return the gain of a continued row over its start."""
    start = scores_of(RESULTS / "continuation/start.csv", weights="start.pth")
    own = scores_of(RESULTS / "continuation/results.csv", method=method)
    return shown(1, *gain(own, start))


def behind_both_draws(path):
    """Return the lead of both draws of SwAV over sampled patches."""
    draws = scores_of(RESULTS / path, method="swav-small")
    draws += scores_of(RESULTS / path, method="cells-no-terms")
    return shown(1, *gain(draws, scores_of(RESULTS / path, method="ssprl-small-sampled")))


def behind_swav(budget):
    """Return the lead of SwAV over all patches at the rate 0.004."""
    own = scores_of(RESULTS / PHOTOS, method="swav-small", budget=budget)
    return shown(1, *gain(own, scores_of(RESULTS / "photos/same_rate.csv")))


def column(path, name, **wanted):
    """Return the least and the most of a column over some rows."""
    rows = [row for row in read_rows(RESULTS / path) if wanted.items() <= row.items()]
    values = [float(row[name]) for row in rows]
    return min(values), max(values)


def range_of(path, method):
    """Return the lowest and the highest score of a row."""
    scores = scores_of(RESULTS / path, method=method)
    return shown(1, min(scores), max(scores))


def gains(path, reference, rows=None, budgets=None):
    """Return the differences, with half-widths, of rows that compete to a reference."""
    runs = read_rows(RESULTS / path)
    found = []
    for budget in budgets or sorted({run["budget"] for run in runs}):
        others = scores_of(RESULTS / path, method=reference, budget=budget)
        competing = sorted({run["method"] for run in runs} - {reference, "random", "supervised"})
        for row in rows or competing:
            found.append(gain(scores_of(RESULTS / path, method=row, budget=budget), others))
    return found


def gains_between(decimals, *asked, index=0):
    """Return the least and the most of some differences, or with index 1 of half-widths."""
    sizes = sorted(abs(each[index]) for each in gains(*asked))
    return shown(decimals, sizes[0], sizes[-1])


def held_out_gains(path, *rows):
    """Return the differences of forms to cells on held-out images."""
    return shown(1, *(each[0] for each in gains(path, "ssprl-cells", rows)))


def lost(row, reference):
    """Return the points that a continued row lost on the held-out images."""
    own = scores_of(RESULTS / OWN, row=row, split="held-out")
    return gain(own, scores_of(RESULTS / OWN, row=reference, split="held-out"))[0]


def lead_of_the_chosen_rate():
    """Return by how much the paper's form leads with the chosen rate over the config's."""
    file = RESULTS / "photos/tuning.csv"
    chosen = scores_of(file, method="ssprl", chosen="True")
    return shown(2, gain(chosen, scores_of(file, method="ssprl", lr_factor="1.0"))[0])


def below_a_guess():
    """Return by how many percent their losses are below the loss of a guess among 513."""
    losses = column(SCENES, "loss", collapsed="True")
    return shown(0, *(100 - 100 * loss / math.log(513) for loss in losses[::-1]))


def over_both_tables():
    """Return p of sampled patches after the correction over both tables of scenes."""
    rows = [row for row in read_rows(RESULTS / "scenes/comparisons.csv") if row["p_holm"]]
    found = holm([float(row["p"]) for row in rows])
    keys = [(row["budget"], row["method"]) for row in rows]
    return shown(3, found[keys.index(("time", "ssprl-sampled"))])


def over_twelve():
    """Return p of SwAV with six small views after the correction over the study of choices."""
    rows = sorted({row["method"] for row in read_rows(RESULTS / CHOICES)} - {UNCHANGED})
    found = holm(p_values(CHOICES, rows, UNCHANGED))
    return shown(2, found[rows.index("swav-small")])


def larc_probes():
    """Return mAP of a linear classifier and of kNN after LARC's run, then of random weights."""
    rows = read_rows(RESULTS / "archive/larc_probe.csv")
    found = []
    for row in (rows[-1], rows[0]):
        found += [100 * float(row["linear_mAP"]), 100 * float(row["knn_mAP"])]
    return shown(1, *found)


def minutes(method):
    """Return the least and most CPU time of 20 epochs on photographs."""
    return shown(0, *(each / 60 for each in column(PHOTOS, "seconds", method=method, epochs="20")))


def last_loss():
    """Return the image loss of LARC's short run at its end, divided by ln K."""
    return float(read_rows(RESULTS / "archive/larc_epochs.csv")[-1]["pyramid_s0_over_ln_k"])


def within_time():
    """Return by how many percent rows of five seeds on photographs missed its time, at most."""
    rows = ("swav", "swav-small", "ssprl-small-sampled")
    ratios = [ratio(PHOTOS, "seconds", each, "ssprl", budget="time") for each in rows]
    return shown(0, math.ceil(max(abs(100 * each - 100) for each in ratios)))


def off_time(file, *methods):
    """Return by how many percent rows missed the time of SS-PRL."""
    ratios = [ratio(file, "seconds", each, "ssprl", budget="time") for each in methods]
    return shown(0, *(100 * ratio - 100 for ratio in ratios))
