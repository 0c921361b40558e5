"""The comparison as tables: for a terminal, as Markdown and as CSV, and as a picture."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from statistics import fmean

from ...console.tables import markdown_table
from ...pretraining.methods import RANDOM
from ...system.outputs import write_figure
from ..report import CsvRow, Panel, draw_panels, write_tables
from ..statistics import WELCH, Difference, compare_all, estimate
from .plan import TITLES, Equal, Length, Planner, PretrainResult
from .setting import IMAGE_PX

_HEADS = (
    *("pre-training", "epochs", "images seen", "TFLOP", "seconds"),
    *("seeds", "mAP %", "mIoU %", "against {}", "p (Holm)", ""),
)

Results = Mapping[str, Sequence[PretrainResult]]
"""The runs of a table, by method."""


@dataclass(frozen=True)
class Report:
    """What a comparison has found so far; ``foot`` is a line on command, machine and time."""

    planner: Planner
    tables: Mapping[Equal, Results]
    reference: str
    tuning: Sequence[PretrainResult]
    choices: Mapping[Length, float]
    foot: str

    def text(self) -> str:
        """Return all tables and what they mean, as Markdown."""
        parts = []
        for equal, runs in self.tables.items():
            if runs:
                against = self.comparisons(runs)
                heads = [head.format(self._title(self.reference)) for head in _HEADS]
                lines = [self._line(own, against.get(key)) for key, own in runs.items()]
                parts += [f"### {TITLES[equal]}", markdown_table(heads, lines)]
        if self.choices:
            taken = [[self._title(key), str(n), f"{x:.3g}"] for (key, n), x in self.choices.items()]
            rates = markdown_table(("pre-training", "epochs", "lr x"), taken)
            parts += ["### Learning rates", rates]
        return "\n\n".join([*parts, self._notes(), self.foot])

    def write(self, work_dir: Path) -> list[str]:
        """Write the tables and the picture, and return the names of the files."""
        files: dict[str, str | Sequence[CsvRow]] = {
            "table.md": self.text() + "\n",
            "results.csv": [
                {"budget": equal, **self._row(result)}
                for equal, runs in self.tables.items()
                for own in runs.values()
                for result in own
            ],
            "comparisons.csv": comparison_rows(
                {equal: self.comparisons(runs) for equal, runs in self.tables.items()},
                self.tables,
                self.reference,
            ),
        }
        if self.tuning:
            chosen = {(*length, factor) for length, factor in self.choices.items()}
            files["tuning.csv"] = [
                {**self._row(r), "chosen": (r.method, r.epochs, r.lr_factor) in chosen}
                for r in self.tuning
            ]
        panels = self.panels()
        drawn = {title for panel in panels for title in panel.dots}
        if drawn:
            titles = [each.title for each in self.planner.methods.values() if each.title in drawn]
            figure = draw_panels(panels, titles, self._title(self.reference))
            write_figure(work_dir / "compare.png", figure)
        return [*write_tables(work_dir, files), *["compare.png"] * bool(drawn)]

    def comparisons(self, runs: Results) -> dict[str, Difference]:
        """Compare the methods of one table with the reference, in percent."""
        if self.reference not in runs:
            return {}
        scores = {key: [100 * r.mAP for r in own] for key, own in runs.items()}
        competing = [key for key in scores if self.planner.methods[key].competes]
        return compare_all(scores, self.reference, competing)

    def panels(self) -> list[Panel]:
        """Return a panel for each table, in which random weights are a line."""
        panels = []
        for equal, runs in self.tables.items():
            if not runs:
                continue
            everything = [*chain(*runs.values())]
            lines = {"chance": 100 * fmean(result.chance_mAP for result in everything)}
            if RANDOM.key in runs:
                lines["random weights"] = 100 * fmean(result.mAP for result in runs[RANDOM.key])
            dots = {
                self._title(key): [100 * r.mAP for r in own]
                for key, own in runs.items()
                if key != RANDOM.key
            }
            panels.append(Panel(TITLES[equal], dots, lines))
        return panels

    def _results(self) -> list[PretrainResult]:
        return [*chain(*(chain(*runs.values()) for runs in self.tables.values()))]

    def _title(self, key: str) -> str:
        return self.planner.methods[key].title

    def _line(self, own: Sequence[PretrainResult], found: Difference | None) -> list[str]:
        key = own[0].method
        pace = self.planner.paces.get(key)
        flops = pace.flops * max(r.steps for r in own) if pace else 0
        seconds = [result.seconds for result in own if result.steps]
        regions = [result.mIoU for result in own if result.mIoU is not None]
        num_collapsed = sum(result.collapsed for result in own)
        return [
            self._title(key),
            str(own[0].epochs),
            f"{max(r.images for r in own):,}",
            f"{flops / 1e12:.1f}" if flops else "",
            f"{fmean(seconds):.0f}" if seconds else "",
            str(len(own)),
            estimate([100 * r.mAP for r in own]).text()
            + (f" ({num_collapsed} collapsed)" if num_collapsed else ""),
            estimate([100 * x for x in regions]).text() if regions else "",
            *(found.cells if found else ("", "", "")),
        ]

    def _notes(self) -> str:
        every = self._results()
        lines = [
            f"mAP: linear probe of frozen features at {IMAGE_PX[self.planner.setting.size]} px; "
            "±, and the bars of the picture: 95 % t-intervals over the pre-training seeds.",
            WELCH,
            "seconds: of the process on a CPU, else of the device; TFLOP: counted on one step, "
            "forward and backward, times the steps. collapsed: the embeddings' deviation is below "
            "0.3 of that on a sphere and they fill fewer than 5 dimensions, or the loss was not "
            "finite (scored as a constant).",
        ]
        if every:
            chance = 100 * fmean(result.chance_mAP for result in every)
            commits = sorted({result.commit for result in every if result.commit})
            lines.append(f"A constant score has {chance:.1f} % mAP.")
            if constant := [r.chance_mIoU for r in every if r.chance_mIoU is not None]:
                lines.append(
                    "mIoU: a linear classifier on the cells of the feature map of whole images, of "
                    "the same px; the most frequent class everywhere has "
                    f"{100 * fmean(constant):.1f} %. Differences and tuning are of mAP."
                )
            lines.append(f"Made by the code of commit: {', '.join(commits)}.")
        return "\n".join(lines)

    def _row(self, result: PretrainResult) -> CsvRow:
        planner = self.planner
        method, pace = planner.methods[result.method], planner.paces.get(result.method)
        optimizer = method.config_at(planner.setting.size).optim_wrapper.optimizer
        rate = optimizer.lr * result.lr_factor if method.trains else ""
        return {**asdict(result), "lr": rate, "flops": pace.flops * result.steps if pace else ""}


def comparison_rows(
    found: Mapping[Equal, Mapping[str, Difference]],
    tables: Mapping[Equal, Mapping[str, Sequence[object]]],
    reference: str,
) -> list[CsvRow]:
    """Return a row of ``comparisons.csv`` for each difference."""
    names = (
        *("budget", "method", "reference", "num_seeds", "num_reference_seeds"),
        *("difference", "low", "high", "p", "p_holm", "verdict"),
    )
    rows: list[CsvRow] = []
    for equal, runs in tables.items():
        for key, one in found[equal].items():
            low, high = one.difference.interval or ("", "")
            compared = (equal, key, reference, len(runs[key]), len(runs[reference]))
            values = (one.difference.mean, low, high, one.p, one.adjusted_p, one.verdict)
            rows.append(dict(zip(names, (*compared, *values), strict=True)))
    return rows
