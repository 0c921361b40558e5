"""The demonstration: runs as those of ``compare``, on scenes, with the configs as they stand.

Its trainings differ from a comparison's in their length, batch and first weights, which are those
that the config names or draws, and are timed by the median of their steps.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any, Literal

from ..console.tables import markdown_table
from ..datasets.scenes.sample import SIZE_PX, generate_sample
from ..experiments.compare import training
from ..experiments.compare.plan import PretrainRun
from ..experiments.compare.setting import code_digest, config_of
from ..experiments.execute import Jobs, Log, execute_runs, require_all
from ..experiments.report import csv_text
from ..experiments.run import RunOutcome, module_command
from ..experiments.statistics import estimate
from ..experiments.work_dir import check_own
from ..pretraining.methods import BY_KEY, Method
from ..system.outputs import write_figure, write_whole

MARKER = "made_by_mmssprl_demo.txt"
CAPTION = (
    "±: 95 % t-interval over the seeds. seconds: steps x the median time of a step, data and "
    "augmentation included; median over the seeds. `pretrain` trains SS-PRL's last form by "
    "itself. Other methods and tuned learning rates: `python -m mmssprl compare`."
)
_HEADS = ("pre-training", "epochs", "seconds", "mAP % per seed", "mAP %", "against random")


@dataclass(frozen=True)
class DemoRow:
    """One row of the table, of the method's config of size ``scenes``.

    Its length are the 'epochs' of the config, the 'time' of SS-PRL, or one epoch, in which the
    'pace' of a row of equal time is measured.
    """

    key: str
    title: str
    method_key: str
    length: Literal["epochs", "time", "pace"] = "epochs"

    @property
    def method(self) -> Method:
        """The method that is trained."""
        return BY_KEY[self.method_key]

    @property
    def epochs(self) -> int:
        """Its length where that does not follow from others; 0 if it does not train."""
        if self.length == "pace":
            return 1
        return config_of(self.method, "scenes").train_cfg.max_epochs if self.method.trains else 0


RANDOM = DemoRow("random", "random weights", "random")
SWAV = DemoRow("swav_equal_epochs", "SwAV (no small views), equal epochs", "swav")
SSPRL = DemoRow("ssprl", "SS-PRL (paper)", "ssprl")
ROWS = (
    RANDOM,
    SWAV,
    DemoRow("swav_equal_time", "SwAV (no small views), equal time", "swav", "time"),
    DemoRow(
        "swav_small_views_equal_time", "SwAV (six small views), equal time", "swav-small", "time"
    ),
    SSPRL,
    DemoRow(
        "ssprl_small_views_sampled_equal_time",
        "SS-PRL (six small views, sampled patches), equal time",
        "ssprl-small-sampled",
        "time",
    ),
)
_PACES = tuple(
    replace(
        row,
        key=row.key.replace("equal_time", "pace"),
        title=f"pace of {row.title.removesuffix(', equal time')}",
        length="pace",
    )
    for row in ROWS
    if row.length == "time" and row.method_key != SWAV.method_key
)


def run_demo(
    work_dir: Path, *, num_seeds: int = 3, num_jobs: int = 2, log: Log = print
) -> list[dict[str, Any]]:
    """Run what is missing in ``work_dir``, then write table and pictures.

    Returns a line of ``results.csv`` for each run; a run that fails is told after all others.
    """
    start = time.perf_counter()
    check_own(work_dir, MARKER, "the demo (for make: DEMO_DIR=...)")
    work_dir.mkdir(parents=True, exist_ok=True)
    write_whole(work_dir / MARKER, "`python -m mmssprl demo` may delete incomplete runs in here.\n")
    scenes = generate_sample(work_dir, log)
    jobs = Jobs(num_jobs, groups=["-1"])  # no GPU: the figures are those of a CPU

    def do(
        rows: Sequence[tuple[DemoRow, int]], lengths: Mapping[str, int], **others: int
    ) -> list[dict[str, Any]]:
        runs = [
            plan_run(work_dir, scenes, row, seed, lengths.get(row.method_key, row.epochs))
            for row, seed in rows
        ]
        outcomes = execute_runs(runs, jobs, log, **others)
        require_all("the runs of the table", outcomes)
        return [values_of(outcome) for outcome in outcomes]

    seeds = range(num_seeds)
    # Short and long runs alternate: all steps are measured beside others, and no core is idle.
    first = [(SSPRL, 0), *((SWAV, i) for i in seeds), *((pace, 0) for pace in _PACES)]
    first += [*((SSPRL, i) for i in seeds[1:]), *((RANDOM, i) for i in seeds)]
    last = [(row, i) for row in ROWS if row.length == "time" for i in seeds]
    results = do(first, {}, after=len(last))
    lengths = epochs_in_equal_time(results)
    told = ", ".join(f"{BY_KEY[key].title}: {epochs}" for key, epochs in lengths.items())
    log(f"epochs in the time of SS-PRL: {told}")
    results += do(last, lengths, before=len(first))

    titles = [row.title for row in ROWS]
    results = [values for values in results if values["method"] in titles]
    results.sort(key=lambda values: (values["method"], values["seed"]))
    table = f"{format_table(results)}\n\n{CAPTION}"
    write_whole(work_dir / "table.md", table + "\n")
    write_whole(work_dir / "results.csv", csv_text(results))
    folder = work_dir / "ssprl_seed0"
    pictures = _draw_pictures(folder, scenes)
    log(f"\n{table}\n")
    log("\n".join(f"picture: {path}" for path in pictures))
    log(f"table: {work_dir / 'table.md'}, every run: {work_dir / 'results.csv'}")
    log(f"log, config, checkpoint and backbone weights of one run: {folder}")
    log(f"{time.perf_counter() - start:.0f} s in all")
    return results


def plan_run(work_dir: Path, scenes: Path, row: DemoRow, seed: int, epochs: int) -> PretrainRun:
    """Return one run."""
    method = row.method
    folder = work_dir / (row.key if row.length == "pace" else f"{row.key}_seed{seed}")
    described = {"method": row.title, "seed": seed, "epochs": epochs}
    inputs = {
        "config": str(method.config_file("scenes")),
        "options": {
            "randomness.seed": seed,
            "train_dataloader.dataset.data_root": str(scenes / "coco" / "train2014"),
            "train_cfg.max_epochs": epochs,
            "param_scheduler.0.T_max": epochs,
        },
        "trains": method.trains,
        "seed": seed,
        "split": "test",
        "data": str(scenes / "coco"),
        "image_px": SIZE_PX,
        "as_configured": True,
        "probe_seed": seed,
        "code": code_digest(),
    }
    return PretrainRun(
        name=row.title if row.length == "pace" else f"{row.title}, seed {seed}",
        kind=row.key if row.length == "epochs" else row.length,
        folder=folder,
        commands=(module_command(training.__name__, folder),),
        inputs=inputs,
        settings={**described, "code": code_digest()},
        described=described,
    )


def values_of(outcome: RunOutcome) -> dict[str, Any]:
    """Return a line of ``results.csv``; the time is steps x the median time of one."""
    names = ("method", "seed", "mAP", "epochs", "steps", "step_seconds")
    found = {name: outcome.values.get(name, 0) for name in names}
    return {**found, "seconds": found["steps"] * found["step_seconds"]}


def epochs_in_equal_time(results: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Return by method the epochs of equal time, in which it takes as long as SS-PRL.

    SS-PRL's median time counts, and the median step of the other method.
    """
    seconds = median(r["seconds"] for r in results if r["method"] == SSPRL.title)
    found = {}
    for row in (SWAV, *_PACES):
        own = [r for r in results if r["method"] == row.title]
        per_epoch = own[0]["steps"] / own[0]["epochs"]
        step_seconds = median(r["step_seconds"] for r in own)
        found[row.method_key] = max(1, round(seconds / (step_seconds * per_epoch)))
    return found


def format_table(results: Sequence[dict[str, Any]]) -> str:
    """Return a Markdown table of results in the order of their seeds, mAP in percent."""
    chance = fmean(100 * r["mAP"] for r in results if r["method"] == RANDOM.title)
    rows = []
    for row in ROWS:
        runs = [r for r in results if r["method"] == row.title]
        scores = [100 * r["mAP"] for r in runs]
        found = estimate(scores)
        rows.append(
            [
                row.title,
                str(runs[0]["epochs"]),
                f"{median(r['seconds'] for r in runs):.0f}",
                " / ".join(f"{score:.1f}" for score in scores),
                found.text(),
                f"{found.mean - chance:+.1f}" if row.method.trains else "",
            ]
        )
    return markdown_table(_HEADS, rows)


def _draw_pictures(run: Path, scenes: Path) -> list[Path]:
    from ..visualization import draw_losses, draw_views

    image = sorted((scenes / "coco" / "val2014").glob("*.jpg"))[0]
    views, losses = run.parent / "views.png", run.parent / "losses.png"
    write_figure(views, draw_views(SSPRL.method.config_file("scenes"), image))
    write_figure(losses, draw_losses(run))
    return [views, losses]
