"""Fine-tune several weights over seeds and shares of the labels, and make one table."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from ..console.tables import markdown_table
from ..datasets.labels import find_labels
from ..datasets.labels.digests import digests_of
from ..errors import UserValueError
from ..finetuning.config import check_options, finetune_config
from ..finetuning.options import FinetuneOptions
from ..finetuning.plan import FinetunePlanner, labels_for
from ..finetuning.start import run_finetuning
from ..runs.devices import choose_gpus
from ..runs.work_dirs import digest
from ..system.stopping import signals
from ..version import __version__
from ..weights import WORDS, Source, whole_path
from .execute import Log, jobs_of_machine
from .experiment import Experiment
from .report import Files
from .run import SETTINGS, Run, RunFailedError, RunOutcome, module_command, read_json, run_module
from .statistics import PAIRED, Difference, adjusted_by_holm, estimate, paired

_INNER = "run"
"""Work dir of the fine-tuning, inside the folder of its run."""
_NOT_SHARED = ("share", "seed", "resume")
"""Options that differ between the runs of a work dir, or change no score."""
_NOTE = (
    "Scores of val after the last epoch, not of the best one, which was chosen by these images; ±: "
    "95 % t-interval over the seeds. A seed draws the new layers, the order and crops of the "
    "images, the share, and the val images where the data have no val split."
)


@dataclass(frozen=True)
class FinetuneRequest:
    """The options of the command; ``shares`` are in (0, 1]."""

    weights: str
    baselines: Sequence[str]
    data: str
    task: str
    work_dir: Path
    seeds: Sequence[int]
    shares: Sequence[float]
    asked: FinetuneOptions

    @property
    def backbone_from(self) -> str | None:
        """The file that gives all rows their backbone; None if there is no file."""
        return None if Source.of(self.weights).word else whole_path(self.weights)

    @property
    def rows(self) -> dict[str, str]:
        """The weights that each row of the table starts from; the reference is first."""
        name = self.weights
        start = self.backbone_from
        if start:
            stem = Path(self.weights).stem
            name = f"{stem} (file)" if stem in WORDS else stem
        return {name: start or name} | {word: word for word in self.baselines}

    def check(self, log: Log) -> None:
        """Raise the errors that a run would raise, and log the labels."""
        task = self.task
        starts = self.rows.values()
        for share, start in product(self.shares, starts):
            check_options(start, task, replace(self.asked, share=share))
        asked = replace(self.asked, share=min(self.shares), seed=self.seeds[0])
        labels = labels_for(self.data, task, asked)
        log(labels.describe())
        if task == "detect" and not any(image.has_scored for image in labels.val):
            raise UserValueError(
                "weights are compared by their scores, but no object of val counts (all are "
                "crowds); label some, or leave out the val split."
            )
        for start in starts:
            finetune_config(start, labels, task, asked, self.backbone_from)

    def runs(self) -> list["FinetuneRun"]:
        """Return the runs of the table, seed after seed."""
        found = []
        for seed, share, (row, start) in product(self.seeds, self.shares, self.rows.items()):
            folder = self.work_dir / "runs" / row / f"share{100 * share:g}" / f"seed{seed}"
            inputs = {
                "weights": start,
                "data": str(Path(self.data).resolve()),
                "task": self.task,
                "asked": asdict(replace(self.asked, share=share, seed=seed)),
                "backbone_from": self.backbone_from,
            }
            run = FinetuneRun(
                name=f"{row}, {100 * share:g} % of the labels, seed {seed}",
                folder=folder,
                commands=(module_command(__name__, folder),),
                measures=f"{_INNER}/scores.json",
                inputs=inputs,
                row=row,
                share=share,
                seed=seed,
            )
            found.append(run)
        return found


@dataclass(frozen=True, eq=False, kw_only=True)
class FinetuneRun(Run):
    """A `finetune` of one row, share and seed."""

    row: str
    share: float
    seed: int

    def read(self, measured: dict[str, Any]) -> dict[str, Any]:
        """Return the scores and counts, the main score first, and what may train differently."""
        plain = {name: x for name, x in measured.items() if isinstance(x, int | float)}
        if next(iter(plain), "num_").startswith("num_"):
            raise RunFailedError(
                "no object of the val images that this seed has drawn counts; give a val split"
            )
        best = measured.get("best", {}).get("epoch", "")
        device = "a GPU" if choose_gpus(None) else "a CPU"
        return {**plain, "best_epoch": best, "version": __version__, "device": device}

    def summary(self, values: dict[str, Any]) -> str:
        """Return the main score."""
        name, score = next(iter(values.items()))
        return f"{name} {score:.1f} %"


class FineTunings(Experiment[FinetuneRun]):
    """A comparison of fine-tunings; the options are checked before the work dir is claimed."""

    title = "a comparison of fine-tunings"
    marker = "finetune.json"
    kind = "fine-tunings"

    def __init__(self, request: FinetuneRequest, log: Log = print) -> None:
        request.check(log)
        super().__init__(request.work_dir, jobs_of_machine(None), log)
        self.request = request

    def settings(self) -> dict[str, Any]:
        """Return task, data, rows and options, with digests."""
        request = self.request
        return {
            "task": request.task,
            "data": str(Path(request.data).resolve()),
            "contents": digests_of(find_labels(request.data, request.task, measured=False)),
            "weights": {
                row: digest(row, Source.of(start).file) for row, start in request.rows.items()
            },
            **{name: x for name, x in asdict(request.asked).items() if name not in _NOT_SHARED},
        }

    def runs(self) -> list[FinetuneRun]:
        """Return the runs of the table, seed after seed."""
        return self.request.runs()

    def tables(self, outcomes: Mapping[FinetuneRun, RunOutcome]) -> Files:
        """Return table and CSV of the finished runs."""
        results = {run: each.values for run, each in outcomes.items() if not each.reason}
        rows = []
        for run, values in results.items():
            rows.append({"weights": run.row, "share": run.share, "seed": run.seed, **values})
        reference = next(iter(self.request.rows))
        return {"table.md": format_table(results, reference), "results.csv": rows}


def format_table(results: Mapping[FinetuneRun, Mapping[str, Any]], reference: str) -> str:
    """Return a table in Markdown; the first of a run's values is the main score."""
    metric = next(iter(next(iter(results.values()), {})), "score")
    groups: dict[tuple[float, str], dict[int, Mapping[str, Any]]] = {}
    for run in sorted(results, key=lambda run: run.share):
        groups.setdefault((run.share, run.row), {})[run.seed] = results[run]

    scores: dict[tuple[float, str], dict[int, float]] = {}
    for group, runs in groups.items():
        scores[group] = {seed: values[metric] for seed, values in runs.items()}
    differences: dict[tuple[float, str], Difference] = {}
    for (share, row), own in scores.items():
        other = scores.get((share, reference), {})
        both = sorted(own.keys() & other.keys())
        if row != reference and both:
            found = paired([own[seed] for seed in both], [other[seed] for seed in both])
            differences[share, row] = Difference(*found)
    against = adjusted_by_holm(differences)

    lines = []
    for (share, row), runs in groups.items():
        num_train = max(values["num_train"] for values in runs.values())
        mean = estimate([*scores[share, row].values()]).text()
        difference = against.get((share, row))
        cells = [row, f"{100 * share:g} %", f"{num_train:,}", str(len(runs)), mean]
        lines.append([*cells, *(difference.cells if difference else ("", "", ""))])
    heads = ["weights", "labels", "images", "seeds", f"{metric} %", f"against {reference}"]
    text = f"{markdown_table([*heads, 'p (Holm)', ''], lines)}\n\n{_NOTE}\n{PAIRED}\n"
    versions = {values.get("version", "0.3.0 or older") for values in results.values()}
    if len(versions) > 1:
        which = ", ".join(sorted(versions))
        text += f"The runs are of mmssprl {which}, which may train differently.\n"
    devices = {values["device"] for values in results.values() if "device" in values}
    if len(devices) > 1:
        which = " and ".join(sorted(devices))
        text += f"The runs are of {which}, which may train other models.\n"
    return text


def train_one(folder: Path) -> None:
    """Do a run in its own process, or resume it; without a config nothing had been trained."""
    inputs = read_json(folder / SETTINGS)
    inner = folder / _INNER
    options = FinetuneOptions(**inputs.pop("asked"))
    if (inner / f"{inputs['task']}.py").is_file():
        options = FinetuneOptions(resume=True)
    else:
        shutil.rmtree(inner, ignore_errors=True)
    with signals.watched():  # save when stopped, as `finetune` does
        run_finetuning(FinetunePlanner(**inputs, asked=options), inner, print)


if __name__ == "__main__":
    run_module(train_one)
