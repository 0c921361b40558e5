"""Fine-tunings as a table, with intervals over the seeds, and as pictures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from ...console.style import CATEGORIES, RC, titled_figure
from ...console.tables import markdown_table
from ...system.outputs import write_figure
from ..report import LEGEND, Panel, write_report
from ..statistics import WELCH, compare_all, estimate, holm

_NOTE = (
    "Scores of val after the last epoch, not of the best one, which these images chose; ±: 95 % "
    "t-interval over the seeds. A seed draws new layers, order and crops of the images, the share, "
    "and the val images where the data have no split of their own."
)
_FIGURE_INCHES = (6.4, 4.2)


@dataclass(frozen=True)
class Result:
    """What one run has measured: ``values`` as in its scores.json, the main score first."""

    row: str
    share: float
    seed: int
    values: Mapping[str, float]
    best_epoch: int | None = None
    reason: str = ""

    @property
    def score(self) -> float:
        """The main score in percent."""
        return next(iter(self.values.values()))


def write_results(
    work_dir: Path, results: Sequence[Result], reference: str
) -> tuple[str, list[str]]:
    """Write table, CSV and pictures; return the text of the table, and the names of the files.

    ``reference`` is the row that the others are compared with.
    """
    done = [result for result in results if not result.reason]
    metric = next(iter(done[0].values)) if done else "score"
    rows = list(dict.fromkeys(result.row for result in results))
    shares = sorted({result.share for result in results})
    of_share = {share: _by_row([x for x in done if x.share == share]) for share in shares}
    text = _table(of_share, reference, metric)
    text += f"\n\n{_NOTE}\n{WELCH}"
    text += "".join(f"\n- failed: {x.row}, seed {x.seed}: {x.reason}" for x in results if x.reason)
    panels = [
        Panel(
            f"{100 * share:g} % of the labels",
            metric,
            {row: [(x.score, "") for x in own] for row, own in by_row.items()},
        )
        for share, by_row in of_share.items()
        if by_row
    ]
    files = write_report(
        work_dir,
        {"table.md": text + "\n", "results.csv": [_csv_row(result) for result in results]},
        "finetune.png",
        panels,
        title=LEGEND.capitalize(),
        rows=rows,
        highlighted=reference,
    )
    if len(panels) > 1:
        write_figure(work_dir / "shares.png", draw_shares(done, rows, metric))
        files.append("shares.png")
    return text, files


def draw_shares(results: Sequence[Result], rows: Sequence[str], metric: str) -> Figure:
    """Draw scores over the number of training images, a line for each row."""
    with matplotlib.rc_context(RC):
        figure = titled_figure(*_FIGURE_INCHES, "A dot per seed; mean and its 95 % interval")
        axes = figure.subplots()
        for index, row in enumerate(rows):
            own = [result for result in results if result.row == row]
            places = sorted({result.values["num_train"] for result in own})
            means = [estimate([x.score for x in own if x.values["num_train"] == n]) for n in places]
            colour = CATEGORIES[index % len(CATEGORIES)]
            numbers = [result.values["num_train"] for result in own]
            axes.scatter(numbers, [x.score for x in own], s=14, color=colour, alpha=0.5)
            axes.errorbar(
                places,
                [each.mean for each in means],
                yerr=[each.half_width or 0.0 for each in means],
                color=colour,
                marker="os^Dv"[index % len(CATEGORIES)],
                capsize=3,
                label=row,
            )
        axes.set_xscale("log")
        places = sorted({result.values["num_train"] for result in results})
        axes.set_xticks(places, [f"{place:,}" for place in places], minor=False)
        axes.minorticks_off()
        axes.set_xlabel("images to train on")
        axes.set_ylabel(f"{metric}, %")
        axes.legend(frameon=False)
    return figure


def _by_row(results: Sequence[Result]) -> dict[str, list[Result]]:
    found: dict[str, list[Result]] = {}
    for result in results:
        found.setdefault(result.row, []).append(result)
    return found


def _table(
    of_share: Mapping[float, Mapping[str, Sequence[Result]]], reference: str, metric: str
) -> str:
    heads = ["weights", "labels", "images", "seeds", f"{metric} %", f"against {reference}"]
    scores = {
        share: {row: [x.score for x in own] for row, own in by_row.items()}
        for share, by_row in of_share.items()
    }
    against = {
        (share, row): difference
        for share, of_row in scores.items()
        if reference in of_row
        for row, difference in compare_all(of_row, reference, ()).items()
    }
    tested = {key: found.p for key, found in against.items() if found.p is not None}
    for key, adjusted in zip(tested, holm([*tested.values()]), strict=True):
        against[key] = replace(against[key], adjusted_p=adjusted)
    lines = []
    for share, by_row in of_share.items():
        for row, own in by_row.items():
            found = against.get((share, row))
            lines.append(
                [
                    row,
                    f"{100 * share:g} %",
                    f"{max(x.values['num_train'] for x in own):,.0f}",
                    str(len(own)),
                    estimate(scores[share][row]).text(),
                    found.difference.text("+.1f") if found else "",
                    found.p_text if found else "",
                    found.verdict if found else "",
                ]
            )
    return markdown_table([*heads, "p (Holm)", ""], lines)


def _csv_row(result: Result) -> dict[str, object]:
    values = {"weights": result.row, "share": result.share, "seed": result.seed}
    status = {"best_epoch": result.best_epoch or "", "failed": result.reason}
    return {**values, **result.values, **status}
