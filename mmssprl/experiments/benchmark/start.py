"""Take a work dir for a benchmark, get the data there, and plan the runs."""

from collections.abc import Callable, Sequence
from pathlib import Path

from mmengine.config import Config

from ...config.shipped import shipped
from ...console.wording import counted
from ...datasets.scenes.sample import generate_sample
from ...errors import UserFileNotFoundError
from .plan import BenchmarkPlan, make_plan
from .protocols import DATA_PREFIX, choose_protocols
from .results import Size
from .rows import Weights, find_weights
from .work_dir import claim, digest, start_anew


def plan_in_work_dir(
    work_dir: Path,
    weights: Sequence[str],
    *,
    size: Size,
    config: str | None,
    protocol_names: Sequence[str] | None,
    data: str | None,
    num_seeds: int,
    num_gpus: int,
    resume: bool,
    overwrite: bool,
    dry_run: bool,
    log: Callable[[str], object],
) -> BenchmarkPlan:
    """BenchmarkPlan a benchmark and write its configs, unless nothing is to be written.

    The arguments are the options of the command; ``log`` receives lines about what is planned.

    Raises:
        FileExistsError: The work dir is used, and neither flag is given.
        FileNotFoundError: Weights or data that are not there.
        ValueError: Arguments that do not fit each other or the runs of the work dir.
    """
    protocols = choose_protocols(size, protocol_names)
    folder = Path(data or "data")
    generated = size == "scenes" and not data
    if not generated and not folder.is_dir():
        raise UserFileNotFoundError(
            f"the data must be in a folder, but there is no {folder}; docs/data.md says how to get "
            f"them there, or give another --data."
        )
    rows = find_weights(weights, config)
    settings = {"size": size, "data": None if generated else str(folder.resolve())}
    digests = {
        "weights": {row.name: _digest(row) for row in rows},
        "configs": {
            p.name: digest(Config.fromfile(shipped(p.config)).to_dict()) for p in protocols
        },
    }
    starts = [row.start for row in rows]
    claim(
        work_dir, settings, digests, starts, resume=resume, overwrite=overwrite, writes=not dry_run
    )
    if generated:
        folder = work_dir / "scenes" if dry_run else generate_sample(work_dir)
    plan = make_plan(
        rows,
        protocols,
        size=size,
        data=folder,
        work_dir=work_dir,
        num_seeds=num_seeds,
        num_gpus=num_gpus,
        writes=not dry_run,
        data_follow=dry_run and generated,
    )
    if overwrite:
        start_anew(work_dir, settings, digests)
    log("\n".join([f"data: {folder} (in place of {DATA_PREFIX[size]})", *_describe(plan)]))
    return plan


def _digest(row: Weights) -> str:
    """Tell a row by its backbone and what is in its file, wherever that is, or else by its word."""
    word = "" if Path(row.start).is_file() else row.start
    return digest([row.backbone, word], row.start)


def _describe(plan: BenchmarkPlan) -> list[str]:
    names = dict.fromkeys(run.protocol.name for run in plan.runs)
    rows = dict.fromkeys(run.weights for run in plan.runs)
    seeds = counted(len({run.seed for run in plan.runs}), "seed")
    lines = [f"{len(plan.runs)} runs: {', '.join(names)}; {', '.join(rows)}; {seeds}"]
    needs = dict.fromkeys(need for run in plan.runs if not run.is_complete for need in run.needs)
    lines += [f"before some of them: {need.name}, its output is in {need.folder}" for need in needs]
    reasons = dict.fromkeys((result.protocol, result.reason) for result in plan.skipped)
    return lines + [f"skipped: {protocol}: {reason}" for protocol, reason in reasons]
