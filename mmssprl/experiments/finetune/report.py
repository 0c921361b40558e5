"""Fine-tunings as a table, with intervals over the seeds, and as a picture."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...console.tables import markdown_table
from ..report import LEGEND, Panel, write_report
from ..statistics import WELCH, Difference, adjusted_by_holm, estimate, welch

_NOTE = (
    "Scores of val after the last epoch, not of the best one, which these images chose; ±: 95 % "
    "t-interval over the seeds. A seed draws new layers, order and crops of the images, the share, "
    "and the val images where the data have no split of their own."
)


@dataclass(frozen=True)
class Result:
    """What a finished run has measured, ``values`` by name: the main score, in percent, first."""

    row: str
    share: float
    seed: int
    values: Mapping[str, float]

    @property
    def score(self) -> float:
        """The main score in percent."""
        return next(iter(self.values.values()))


def write_results(
    work_dir: Path, results: Sequence[Result], reference: str
) -> tuple[str, list[str]]:
    """Write table, CSV and picture; return the text of the table, and the names of the files.

    ``reference`` is the row that the others of a share are compared with.
    """
    metric = next(iter(results[0].values)) if results else "score"
    cells: dict[tuple[float, str], list[Result]] = {}
    for result in sorted(results, key=lambda result: result.share):
        cells.setdefault((result.share, result.row), []).append(result)
    scores = {key: [x.score for x in own] for key, own in cells.items()}
    against = adjusted_by_holm(
        {
            (share, row): Difference(*welch(values, scores[share, reference]))
            for (share, row), values in scores.items()
            if row != reference and (share, reference) in scores
        }
    )
    heads = ["weights", "labels", "images", "seeds", f"{metric} %", f"against {reference}"]
    lines = []
    dots: dict[float, dict[str, list[tuple[float, str]]]] = {}
    for (share, row), own in cells.items():
        dots.setdefault(share, {})[row] = [(x.score, "") for x in own]
        lines.append(
            [
                *(row, f"{100 * share:g} %", f"{max(x.values['num_train'] for x in own):,}"),
                *(str(len(own)), estimate(scores[share, row]).text()),
                *(against[share, row].cells if (share, row) in against else ("", "", "")),
            ]
        )
    text = f"{markdown_table([*heads, 'p (Holm)', ''], lines)}\n\n{_NOTE}\n{WELCH}"
    rows = [{"weights": x.row, "share": x.share, "seed": x.seed, **x.values} for x in results]
    files = write_report(
        work_dir,
        {"table.md": text + "\n", "results.csv": rows},
        "finetune.png",
        [Panel(f"{100 * share:g} % of the labels", metric, each) for share, each in dots.items()],
        title=LEGEND.capitalize(),
        rows=list(dict.fromkeys(result.row for result in results)),
        highlighted=reference,
    )
    return text, files
