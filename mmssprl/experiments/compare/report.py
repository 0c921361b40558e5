"""The results of a comparison: its tables as Markdown and CSV, its picture, its learning rates."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import chain
from statistics import fmean, variance
from typing import Any

from matplotlib.figure import Figure
from mmengine.device import get_device

from ...console.tables import markdown_table
from ...pretraining.methods import RANDOM
from ...system.environment import describe_machine
from ..options import Equal, Size
from ..report import CHANCE, CsvRow, Files, Panel, draw_panels
from ..run import Run
from ..statistics import WELCH, Difference, compare_all, estimate
from .pace import Pace
from .rows import Row
from .setting import IMAGE_PX

TITLES: dict[Equal, str] = {"epochs": "Equal epochs", "time": "Equal time", "flops": "Equal FLOPs"}
FACTORS = (1 / 3, 1.0, 3.0)
"""Learning rates that the tuning tries, as factors of the config's."""
SEEDS = (1000, 1001, 1002)
"""Seeds of the tuning. The final runs count from 0."""
Length = tuple[str, int]
"""Key of a method, and epochs; each length has its own learning rate."""
Result = Mapping[str, Any]
"""Options and measurements of a run by ``COLUMNS``."""
_ASKED = ("method", "seed", "epochs", "lr_factor")
COLUMNS = (
    *(*_ASKED, "mAP", "chance_mAP", "mIoU", "chance_mIoU", "steps", "images", "seconds"),
    *("loss", "embedding_spread", "collapsed", "commit"),
)
"""Columns of ``results.csv``. mAP and mIoU are in [0, 1], mIoU is None without masks. ``seconds``
of the pre-training are CPU time on a CPU, else wall time. ``loss`` and ``embedding_spread``
(about 1 if they are spread over the sphere) are means over the last epoch, at most 1,000 steps."""
_DEFAULTS = {"steps": 0, "images": 0, "seconds": 0.0, "collapsed": False}
"""Results of a method that does not train."""
_HEADS = (
    *("pre-training", "epochs", "TFLOP", "seconds", "seeds", "mAP %", "mIoU %"),
    *("against {}", "p (Holm)", ""),
)
_NOTE = (
    "mAP: linear probe of frozen features at {} px; ±: 95 % t-interval over the pre-training "
    "seeds. mIoU: likewise, of feature maps' cells. seconds: CPU time on a CPU, else wall time. "
    "See docs/compare.md."
)
Results = Mapping[str, Sequence[Result]]
"""The runs of a table by method."""


def results_of(runs: Iterable[Run]) -> list[Result]:
    """Return the results of the complete runs."""
    found: list[Result] = []
    for run in runs:
        outcome = run.kept()
        if outcome is not None:
            asked = {name: outcome.settings[name] for name in _ASKED}
            values = {**_DEFAULTS, **outcome.values, **asked}
            found.append({name: values.get(name) for name in COLUMNS})
    return found


def choose(scores: Mapping[float, Sequence[float]]) -> float | None:
    """Return the factor with the best mAP over the seeds; None before all have all seeds."""
    if not all(len(scores.get(factor, ())) == len(SEEDS) for factor in FACTORS):
        return None
    best = max(FACTORS, key=lambda factor: fmean(scores[factor]))
    lead = fmean(scores[best]) - fmean(scores[1.0])
    error = math.sqrt((variance(scores[best]) + variance(scores[1.0])) / len(SEEDS))
    return best if lead and lead >= error else 1.0  # a lead below its standard error is none


@dataclass(frozen=True)
class Report:
    """The results of a comparison so far; ``command`` is the command line."""

    methods: Mapping[str, Row]
    size: Size
    pace: Callable[[Row], Pace | None]
    tables: Mapping[Equal, Results]
    reference: str
    tuning: Sequence[Result]
    choices: Mapping[Length, float]
    command: str

    @cached_property
    def differences(self) -> dict[Equal, dict[str, Difference]]:
        """Differences to the reference in percentage points, by table and method."""
        found = {}
        for equal, runs in self.tables.items():
            scores = {key: _percent(own) for key, own in runs.items()}
            competing = [key for key in scores if self.methods[key].competes]
            has_reference = self.reference in runs
            found[equal] = compare_all(scores, self.reference, competing) if has_reference else {}
        return found

    def text(self) -> str:
        """Return all tables and their notes as Markdown."""
        parts = []
        for equal, runs in self.tables.items():
            if runs:
                heads = [head.format(self._title(self.reference)) for head in _HEADS]
                found = self.differences[equal]
                lines = [self._line(key, own, found.get(key)) for key, own in runs.items()]
                parts += [f"### {TITLES[equal]}", markdown_table(heads, lines)]
        return "\n\n".join([*parts, self._notes()])

    def files(self) -> Files:
        """Return the tables and the picture by file name."""
        results: list[CsvRow] = []
        for equal, runs in self.tables.items():
            results += [{"budget": equal, **self._row(each)} for each in chain(*runs.values())]
        files: dict[str, str | Sequence[CsvRow] | Figure] = {
            "table.md": self.text() + "\n",
            "results.csv": results,
            "comparisons.csv": comparison_rows(self.differences, self.tables, self.reference),
        }
        if self.tuning:
            chosen = {(*length, factor) for length, factor in self.choices.items()}
            files["tuning.csv"] = [
                {**self._row(r), "chosen": (r["method"], r["epochs"], r["lr_factor"]) in chosen}
                for r in self.tuning
            ]

        panels = [self._panel(equal, runs) for equal, runs in self.tables.items() if runs]
        drawn = set(chain(*(panel.dots for panel in panels)))
        if drawn:
            titles = [each.title for each in self.methods.values() if each.title in drawn]
            files["compare.png"] = draw_panels(panels, titles, self._title(self.reference))
        return files

    def _panel(self, equal: Equal, runs: Results) -> Panel:
        """Return the panel of a table; random weights are a line in it."""
        lines = {CHANCE: fmean(_percent([*chain(*runs.values())], "chance_mAP"))}
        dots = {self._title(key): _percent(own) for key, own in runs.items()}
        if random := dots.pop(RANDOM.title, None):
            lines["random weights"] = fmean(random)
        return Panel(TITLES[equal], dots, lines)

    def _title(self, key: str) -> str:
        return self.methods[key].title

    def _flops(self, result: Result) -> float:
        """Return the operations of a run; 0 if its pace was not measured."""
        pace = self.pace(self.methods[result["method"]])
        return pace["flops"][result["method"]] * (result["steps"] or 0) if pace else 0

    def _line(self, key: str, own: Sequence[Result], found: Difference | None) -> list[str]:
        flops = max(map(self._flops, own))
        seconds = [result["seconds"] for result in own if result["steps"]]
        regions = _percent(own, "mIoU")
        num_collapsed = sum(bool(result["collapsed"]) for result in own)
        mark = f" ({num_collapsed} collapsed)" if num_collapsed else ""
        return [
            self._title(key),
            str(own[0]["epochs"]),
            f"{flops / 1e12:.1f}" if flops else "",
            f"{fmean(seconds):.0f}" if seconds else "",
            str(len(own)),
            f"{estimate(_percent(own)).text()}{mark}",
            estimate(regions).text() if regions else "",
            *(found.cells if found else ("", "", "")),
        ]

    def _notes(self) -> str:
        every: list[Result] = []
        for runs in self.tables.values():
            every += chain(*runs.values())
        lines = [_NOTE.format(IMAGE_PX[self.size]), WELCH]
        if every:
            lines.append(f"A constant has {fmean(_percent(every, 'chance_mAP')):.1f} % mAP.")
            if constant := _percent(every, "chance_mIoU"):
                lines.append(f"The most frequent class has {fmean(constant):.1f} % mIoU.")
            commits = sorted({result["commit"] for result in every if result["commit"]})
            lines.append(f"Code of commit: {', '.join(commits)}.")
        lines.append(f"`{self.command}`, {describe_machine(get_device())}, {datetime.now(UTC):%F}.")
        return "\n".join(lines)

    def _row(self, result: Result) -> CsvRow:
        method = self.methods[result["method"]]
        optimizer = method.config_at(self.size).optim_wrapper.optimizer
        rate = optimizer.lr * result["lr_factor"] if method.trains else ""
        return {**result, "lr": rate, "flops": self._flops(result) or ""}


def _percent(results: Sequence[Result], name: str = "mAP") -> list[float]:
    """Return the scores ``name`` of results in percent, without None."""
    return [100 * result[name] for result in results if result[name] is not None]


def comparison_rows(
    found: Mapping[Equal, Mapping[str, Difference]],
    tables: Mapping[Equal, Mapping[str, Sequence[object]]],
    reference: str,
) -> list[CsvRow]:
    """Return a row of ``comparisons.csv`` for each difference."""
    rows: list[CsvRow] = []
    for equal, differences in found.items():
        for key, one in differences.items():
            low, high = one.difference.interval or ("", "")
            row = {
                "budget": equal,
                "method": key,
                "reference": reference,
                "num_seeds": len(tables[equal][key]),
                "num_reference_seeds": len(tables[equal][reference]),
                "difference": one.difference.mean,
                "low": low,
                "high": high,
                "p": one.p,
                "p_holm": one.adjusted_p,
                "verdict": one.verdict,
            }
            rows.append(row)
    return rows
