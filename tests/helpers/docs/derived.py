"""Figures that follow from committed CSV files: scores, means with intervals, differences."""

import csv
import functools
import math
import re
from collections import defaultdict
from itertools import combinations
from statistics import fmean, variance

from scipy import stats

GROUPS = ("measure", "split", "budget", "share", "network", "row", "method", "weights", "epochs")
GROUPS += ("lr_factor",)
"""Columns that tell the runs of one row of a table, which differ in their seeds."""
KINDS = 4
"""The first of these must be equal in rows that are compared."""
BASES = {"start", "random"}
"""Rows of one seed that tables compare others of one seed with."""
SCORE = re.compile(r"(chance_)?(mAP|kNN|mIoU|accuracy)|(box|mask) AP")


@functools.cache
def read_rows(path):
    """Return the rows of a CSV file as dicts of texts."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def scores_of(path, score="mAP", **wanted):
    """Return a score of these rows of a CSV file, in percent."""
    rows = [row for row in read_rows(path) if wanted.items() <= row.items()]
    values = [float(row[score]) for row in rows]
    return values if max(values) > 1 else [100 * value for value in values]


def half_width(values):
    """Return t(0.975, n - 1) s / sqrt(n), the half-width of the interval of a mean."""
    return float(stats.t.ppf(0.975, len(values) - 1)) * math.sqrt(variance(values) / len(values))


def gain(values, others):
    """Return the difference of two means and its half-width by Welch; one seed is exact."""
    difference = fmean(values) - fmean(others)
    several = [each for each in (values, others) if len(each) > 1]
    if len(several) < 2:
        return difference, half_width(several[0]) if several else None
    parts = [variance(each) / len(each) for each in several]
    if not sum(parts):
        return difference, 0.0
    squares = [part**2 / (len(each) - 1) for part, each in zip(parts, several, strict=True)]
    freedom = sum(parts) ** 2 / sum(squares)
    return difference, float(stats.t.ppf(0.975, freedom)) * math.sqrt(sum(parts))


class Numbers:
    """What texts and tables may say of some CSV files.

    Attributes:
        means: Means over seeds, and values of tables without seeds.
        pairs: Means and differences, with the half-widths of their intervals.
        differences: Differences of one seed.
        shares: p-values. Tables write rates with as many decimals.
        seconds: Mean, least and most of a row.
        epochs: Lengths.
        both: The scores of both runs of rows that have two.
        rates: Learning rates, and their factors.
        cells: What tables alone show of a row: operations.
    """

    def __init__(self):
        self.means = []
        self.pairs = []
        self.differences = []
        self.shares = []
        self.seconds = []
        self.epochs = []
        self.both = []
        self.rates = []
        self.cells = []

    def of(self, kind):
        """Return the numbers that a figure of a kind may be."""
        if kind == "cells":
            return [*self.means, *self.differences, *self.rates, *self.cells]
        if kind == "shares":
            return [*self.shares, *self.rates]
        return getattr(self, kind)

    def add(self, path):
        """Add what follows from one file."""
        rows = read_rows(path)
        if "difference" in rows[0]:
            self._add_differences(rows)
        elif "seed" in rows[0] and "value" not in rows[0]:
            self._add_runs(rows)
        else:
            self._add_values(rows)

    def _add_differences(self, rows):
        for row in rows:
            width = row.get("half_width")
            if row.get("low"):
                width = (float(row["high"]) - float(row["low"])) / 2
            if width:
                self.pairs.append((float(row["difference"]), float(width)))
            self.shares += [float(row[name]) for name in ("p", "p_holm") if row.get(name)]

    def _add_values(self, rows):
        for row in rows:
            text = row.get("value") or " ".join(row.values())
            found = [float(each) for each in re.findall(r"\d+(?:\.\d+)?", text)]
            self.means += found
            self.means += [100 * value for value in found if value <= 1]
            self.seconds += found
            self.epochs += found
            if "standard_deviation" in row:
                num = int(row["num_seeds"])
                width = stats.t.ppf(0.975, num - 1) * float(row["standard_deviation"])
                self.pairs.append((float(row["mean"]), width / math.sqrt(num)))

    def _add_runs(self, rows):
        groups = defaultdict(list)
        for row in rows:
            groups[tuple(row.get(column) for column in GROUPS)].append(row)
        for group in groups.values():
            seconds = [float(row["seconds"]) for row in group if row.get("seconds")]
            if seconds:
                self.seconds += [fmean(seconds), min(seconds), max(seconds)]
            self.epochs += [float(row["epochs"]) for row in group if row.get("epochs")]

        for column in rows[0]:
            if SCORE.match(column):
                self._add_scores(column, groups)
        for row in rows:
            self.cells += [float(row["flops"]) / 1e12] if row.get("flops") else []
            self.rates += [float(row[name]) for name in ("lr", "lr_factor") if row.get(name)]

    def _add_scores(self, column, groups):
        scores = {}
        for key, group in groups.items():
            values = [float(row[column]) for row in group if row[column]]
            if values:
                percent = 100 if max(values) <= 1 else 1
                scores[key] = [percent * value for value in values]

        for key, values in scores.items():
            self.both += [tuple(values)] if len(values) == 2 else []
            if groups[key][0].get("chosen") != "False":
                self.means.append(fmean(values))
            if len(values) > 1:
                self.pairs.append((fmean(values), half_width(values)))
        for (one, values), (other, others) in combinations(scores.items(), 2):
            if one[:KINDS] != other[:KINDS]:
                continue
            found = gain(values, others)
            if found[1] is not None:
                self.pairs.append(found)
            elif BASES & {*one, *other}:
                self.differences.append(found[0])
