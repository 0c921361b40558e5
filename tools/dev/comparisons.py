"""Make the differences of a finished comparison anew from its results.csv.

    python tools/dev/comparisons.py docs/results/photos

Rewrites every comparisons*.csv of the folder and, in table.md, the columns of differences and the
note on them. All else stays as it is.
"""

import csv
import re
from collections import defaultdict
from pathlib import Path

from mmssprl.console.arguments import Parser
from mmssprl.console.tables import markdown_table
from mmssprl.experiments.compare.plan import BUDGETS
from mmssprl.experiments.compare.report import WELCH, comparison_rows, p_text
from mmssprl.experiments.report import csv_text
from mmssprl.experiments.statistics import Difference, compare_all
from mmssprl.pretraining.methods import BY_KEY


def read(path: Path) -> list[dict[str, str]]:
    """Return the lines of a CSV file."""
    with path.open() as file:
        return list(csv.DictReader(file))


def read_scores(folder: Path) -> dict[str, dict[str, list[float]]]:
    """Return the mAP in percent of every seed, by budget and method, from results.csv."""
    scores: defaultdict[str, dict[str, list[float]]] = defaultdict(dict)
    for run in read(folder / "results.csv"):
        scores[run["budget"]].setdefault(run["method"], []).append(100 * float(run["mAP"]))
    return dict(scores)


def compare(scores: dict[str, list[float]], reference: str) -> dict[str, Difference]:
    """Compare the methods of one table with the reference, if that is among them."""
    competing = [key for key in scores if key not in BY_KEY or BY_KEY[key].competes]
    return compare_all(scores, reference, competing) if reference in scores else {}


def comparisons(folder: Path, reference: str) -> str:
    """Return the lines of comparisons.csv."""
    scores = read_scores(folder)
    found = {budget: compare(own, reference) for budget, own in scores.items()}
    return csv_text(comparison_rows(found, scores, reference))


def table(folder: Path) -> str:
    """Return table.md with its columns of differences made anew."""
    scores = read_scores(folder)
    titles = {
        key: BY_KEY[key].title if key in BY_KEY else key for own in scores.values() for key in own
    }
    keys = {title: key for key, title in titles.items()}
    text = (folder / "table.md").read_text()
    for budget, heading in BUDGETS.items():
        match = re.search(rf"^#+ {heading}\n\n((?:\|.*\n)+)", text, re.M)
        if match:
            heads, _, *rows = [
                [cell.strip() for cell in line.strip("|").split("|")]
                for line in match[1].splitlines()
            ]
            at = next(i for i, head in enumerate(heads) if head.startswith("against "))
            found = compare(scores[budget], keys[heads[at].removeprefix("against ")])
            for row in rows:
                one = found.get(keys[row[0]])
                if one:
                    cells = one.difference.text("+.1f"), p_text(one.adjusted_p), one.verdict
                    row[at : at + 3] = cells
            text = text.replace(match[1], markdown_table(heads, rows) + "\n")
    return re.sub(r"^Differences are paired over .*$", WELCH, text, flags=re.M)


def main() -> None:
    """Rewrite the files."""
    parser = Parser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path, help="with results.csv")
    for folder in parser.parse_args().folders:
        for path in folder.glob("comparisons*.csv"):
            path.write_text(comparisons(folder, read(path)[0]["reference"]))
        (folder / "table.md").write_text(table(folder))


if __name__ == "__main__":
    main()
