"""The comparison as tables: for a terminal, as Markdown and as CSV."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import fmean

from ...console.tables import csv_table, markdown_table
from ...console.wording import counted
from ...pretraining.methods import BY_KEY, RANDOM
from ...system.outputs import write_figure, write_whole
from ..benchmark.paper_numbers import ABLATIONS, ABLATIONS_NOTE
from ..figure import LEGEND, Panel, draw_panels
from ..statistics import Difference, compare_all, estimate
from .plan import BUDGETS, Budget, Length, Planner
from .results import PretrainResult, as_row
from .tuning import Choice

_HEADS = (
    *("pre-training", "epochs", "images seen", "TFLOP", "seconds", "peak MiB"),
    *("seeds", "mAP %", "against {}", "p (Holm)", ""),
)
WELCH = (
    "Differences: Welch's test and 95 % interval over the seeds, which are not paired. better, "
    "worse: the interval excludes 0 also at the level of its step of Holm's correction over the "
    "table's methods (p < 0.05)."
)
"""What the columns of differences mean."""
_PAPER_TITLES = {"swav": "scale 0 alone", "ssprl": "all terms"}
"""Of the rows of table 4 that ours are not named like: the paper does not say which form it is."""
_ONLY_ABLATIONS = ABLATIONS.keys() - _PAPER_TITLES.keys()
"""Rows that nobody asks for who does not compare ablations."""


@dataclass(frozen=True)
class Report:
    """What a comparison has found so far.

    Args:
        planner: Of the work dir.
        tables: Runs by method, for each budget.
        reference: Key of the method that the others are compared with.
        tuning: Runs of the tuning; empty without one.
        choices: Of its learning rates.
        foot: Lines on command, machine and time.
        num_others: Complete runs of other code, which are left out.
    """

    planner: Planner
    tables: Mapping[Budget, Mapping[str, Sequence[PretrainResult]]]
    reference: str
    tuning: Sequence[PretrainResult]
    choices: Mapping[Length, Choice]
    foot: Sequence[str]
    num_others: int = 0

    def text(self) -> str:
        """Return all tables and what they mean, as Markdown."""
        parts = []
        for budget, runs in self.tables.items():
            if runs:
                parts += [f"### {BUDGETS[budget]}", self._table(runs)]
        if self.tuning:
            parts += ["### Learning rates", self._tuning_table()]
        if any(key in runs for runs in self.tables.values() for key in _ONLY_ABLATIONS):
            parts += ["### Table 4 of the paper, not comparable", _paper_ablations()]
        return "\n\n".join([*parts, *self._notes(), *self._origin(), *self.foot])

    def write(self, work_dir: Path) -> list[str]:
        """Write the tables and the figure, and return the names of the files."""
        files = {
            "table.md": self.text() + "\n",
            "results.csv": self._results_csv(),
            "comparisons.csv": self._comparisons_csv(),
        }
        if self.tuning:
            files["tuning.csv"] = self._tuning_csv()
        for name, text in files.items():
            write_whole(work_dir / name, text)
        panels = self.panels()
        drawn = {title for panel in panels for title in panel.dots}
        if not drawn:
            return [*files]
        rows = [m.title for m in self.planner.methods.values() if m.title in drawn]
        figure = draw_panels(
            panels, rows, LEGEND.capitalize(), highlighted=self._title(self.reference)
        )
        write_figure(work_dir / "compare.png", figure)
        return [*files, "compare.png"]

    def comparisons(self, runs: Mapping[str, Sequence[PretrainResult]]) -> dict[str, Difference]:
        """Compare the methods of one table with the reference, in percent."""
        if self.reference not in runs:
            return {}
        scores = {key: [100 * r.mAP for r in own] for key, own in runs.items()}
        competing = [key for key in scores if self.planner.methods[key].competes]
        return compare_all(scores, self.reference, competing)

    def _table(self, runs: Mapping[str, Sequence[PretrainResult]]) -> str:
        against = self.comparisons(runs)
        rows = []
        for key, own in runs.items():
            trains = self.planner.methods[key].trains
            num_collapsed = sum(result.collapsed for result in own)
            mark = f" ({num_collapsed} collapsed)" if num_collapsed else ""
            found = against.get(key)
            rows.append(
                [
                    self._title(key),
                    str(own[0].epochs),
                    f"{max(r.images for r in own):,}",
                    self._tera(own) if trains else "",
                    _seconds(own) if trains else "",
                    f"{max(r.peak_mib or 0 for r in own)}" if trains else "",
                    str(len(own)),
                    estimate([100 * r.mAP for r in own]).text() + mark,
                    found.difference.text("+.1f") if found else "",
                    p_text(found.adjusted_p) if found else "",
                    found.verdict if found else "",
                ]
            )
        heads = [head.format(self._title(self.reference)) for head in _HEADS]
        return markdown_table(heads, rows)

    def _title(self, key: str) -> str:
        return self.planner.methods[key].title

    def panels(self) -> list[Panel]:
        """Return a panel for each table, in which random weights are a line."""
        panels = []
        for budget, runs in self.tables.items():
            everything = [result for own in runs.values() for result in own]
            if not everything:
                continue
            lines = {"chance": 100 * fmean(result.chance_mAP for result in everything)}
            if RANDOM.key in runs:
                lines["random weights"] = 100 * fmean(result.mAP for result in runs[RANDOM.key])
            dots = {
                self._title(key): [(100 * r.mAP, "collapsed" * r.collapsed) for r in own]
                for key, own in runs.items()
                if key != RANDOM.key
            }
            panels.append(Panel(BUDGETS[budget], "mAP", dots, lines))
        return panels

    def _tera(self, own: Sequence[PretrainResult]) -> str:
        pace = self.planner.paces.get(own[0].method)
        return f"{pace.flops * max(r.steps for r in own) / 1e12:.1f}" if pace else ""

    def _notes(self) -> list[str]:
        chances = [
            r.chance_mAP for runs in self.tables.values() for own in runs.values() for r in own
        ]
        setting = self.planner.setting
        device = next((pace.device for pace in self.planner.paces.values()), "CPU")
        lines = [
            f"mAP: linear probe of frozen features at {setting.image_px} px; "
            "±, and the bars of the picture: 95 % t-intervals over the pre-training seeds.",
            WELCH,
            f"seconds: {device} time of the pre-training; TFLOP: counted on one step, forward and "
            "backward, times the steps. collapsed: the embeddings' deviation is below 0.3 of that "
            "on a sphere and they fill fewer than 5 dimensions, or the loss was not finite (scored "
            "as a constant).",
        ]
        if chances:
            lines.append(f"A constant score has {100 * fmean(chances):.1f} % mAP.")
        if self.num_others:
            lines.append(
                f"Left out: {counted(self.num_others, 'complete run')} of other code, which the "
                "same command does again as far as the tables need them."
            )
        if self.planner.split == "held-out":
            lines.append(
                "Pre-trained on four fifths of the training images and scored on the last fifth; "
                "the test images were not looked at."
            )
        return ["\n".join(lines)]

    def _origin(self) -> list[str]:
        """Return what made the runs. Those that are in several tables count once."""
        tables = (own for table in self.tables.values() for own in table.values())
        runs = {
            (r.method, r.epochs, r.lr_factor, r.seed): r
            for r in chain(self.tuning, *tables)
            if self.planner.methods[r.method].trains
        }
        if not runs:
            return []
        num = counted(len(runs), "pre-training")
        hours = sum(r.seconds for r in runs.values()) / 3600
        commits = ", ".join(sorted({r.commit for r in runs.values()}))
        return [f"{num}, {hours:.1f} h in all, made by the code of commit: {commits}."]

    def _results_csv(self) -> str:
        return _csv(
            {"budget": budget, **as_row(result, self.planner)}
            for budget, runs in self.tables.items()
            for own in runs.values()
            for result in own
        )

    def _comparisons_csv(self) -> str:
        found = {budget: self.comparisons(runs) for budget, runs in self.tables.items()}
        return comparisons_csv(found, self.tables, self.reference)

    def _tuning_table(self) -> str:
        factors = sorted({r.lr_factor for r in self.tuning})
        rows = []
        for key, epochs in dict.fromkeys((r.method, r.epochs) for r in self.tuning):
            cells = []
            for factor in factors:
                run = (key, epochs, factor)
                own = [r for r in self.tuning if (r.method, r.epochs, r.lr_factor) == run]
                scores = " / ".join(
                    f"{100 * r.mAP:.1f}{' (collapsed)' if r.collapsed else ''}" for r in own
                )
                cells.append(f"**{scores}**" if own and self._is_chosen(own[0]) else scores)
            choice = self.choices.get((key, epochs))
            if choice:
                found = (100 * choice.lead, 100 * choice.standard_error)
                cells += [f"{choice.best:.3g}", *(f"{number:.1f}" for number in found)]
            rows.append([self._title(key), str(epochs), *cells, *[""] * (not choice) * 3])
        tried = (f"lr x {factor:.3g}" for factor in factors)
        chosen = ("best", "lead over x 1", "standard error")
        heads = ["held-out mAP % per tuning seed", "epochs", *tried, *chosen]
        about = "Bold: what is taken; x 1 where the lead of the best is below its standard error."
        return f"{markdown_table(heads, rows)}\n\n{about}"

    def _tuning_csv(self) -> str:
        return _csv(
            {**as_row(result, self.planner), "chosen": self._is_chosen(result)}
            for result in self.tuning
        )

    def _is_chosen(self, result: PretrainResult) -> bool:
        choice = self.choices.get((result.method, result.epochs))
        return choice is not None and choice.taken == result.lr_factor


def _paper_ablations() -> str:
    heads = ["pre-training (COCO, ResNet-50)", "linear VOC07 mAP %"]
    titles = {key: _PAPER_TITLES.get(key, BY_KEY[key].title) for key in ABLATIONS}
    table = markdown_table(heads, [[titles[key], str(mAP)] for key, mAP in ABLATIONS.items()])
    return f"{table}\n\n{ABLATIONS_NOTE}"


def comparisons_csv(
    found: Mapping[Budget, Mapping[str, Difference]],
    tables: Mapping[Budget, Mapping[str, Sequence[object]]],
    reference: str,
) -> str:
    """Return a line per comparison.

    Args:
        found: By budget and method.
        tables: Runs by budget and method.
        reference: Method that the others are compared with.
    """
    heads = (
        *("budget", "method", "reference", "num_seeds", "num_reference_seeds"),
        *("difference", "low", "high", "p", "p_holm", "verdict"),
    )
    lines = []
    for budget, runs in tables.items():
        for key, comparison in found[budget].items():
            low, high = comparison.difference.interval or ("", "")
            lines.append(
                [
                    *(budget, key, reference, len(runs[key]), len(runs[reference])),
                    *(comparison.difference.mean, low, high, comparison.p),
                    *(comparison.adjusted_p, comparison.verdict),
                ]
            )
    return csv_table(heads, lines)


def _csv(lines: Iterable[Mapping[str, object]]) -> str:
    rows = [*lines]
    return csv_table([*rows[0]], [[*row.values()] for row in rows]) if rows else ""


def _seconds(own: Sequence[PretrainResult]) -> str:
    """Return the mean over the runs that came to their end: of the others none are known."""
    measured = [result.seconds for result in own if result.steps]
    return f"{fmean(measured):.0f}" if measured else ""


def p_text(value: float | None) -> str:
    """Return a p-value as printed."""
    if value is None:
        return ""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
