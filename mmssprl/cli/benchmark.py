"""``python -m mmssprl benchmark``: the transfer protocols on one or more backbones."""

import argparse
import contextlib
import os
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UserValueError

if TYPE_CHECKING:
    from ..benchmark.plan import Plan, Weights
    from ..benchmark.results import Result

_EXAMPLE = """\
examples:
  python -m mmssprl benchmark backbone.pth random --profile scenes --seeds 3
  python -m mmssprl benchmark backbone.pth supervised random --data /data --gpus 8
  python -m mmssprl benchmark backbone.pth --protocols linear detection --resume
  python -m mmssprl benchmark backbone.pth random --seeds 3 --dry-run

Each line that --dry-run prints is one task of a Slurm array; afterwards the same command with
--resume instead of --dry-run, once all tasks have ended, collects the results and runs what is
missing. Where 'supervised' is trained here, that is the
first line, which must end before the others begin.
"""

_SCENES_TRAIN, _SCENES_VAL, _SCENES_PX = 1200, 600, 96


def add_parser(subparsers: "argparse._SubParsersAction[Any]") -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "benchmark",
        help="run the paper's transfer protocols and print its table",
        description=(
            "Train and test every protocol on every backbone: linear and semi-supervised\n"
            "multi-label classification, detection and instance segmentation, semantic\n"
            "segmentation. Data and packages are checked first. Each run keeps its config, log,\n"
            "checkpoint and metrics; what is complete is never run again."
        ),
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "weights",
        nargs="+",
        metavar="WEIGHTS",
        help="backbone weights, training checkpoints, or the words 'random' and 'supervised' "
        "(profile paper: torchvision's ImageNet weights; else trained here on all labels)",
    )
    parser.add_argument(
        "--profile",
        choices=["paper", "scenes", "coco128"],
        default="paper",
        help="size of the data: the paper's, generated scenes, or 100 + 100 real images; the "
        "last two are for CPUs (default: %(default)s)",
    )
    parser.add_argument(
        "--protocols",
        nargs="+",
        metavar="NAME",
        help="linear, semisup, detection, segmentation, or linear-coco, linear-voc, semisup-1, "
        "semisup-10, semisup-100 (default: all of the profile)",
    )
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="folder with coco/ and VOCdevkit/, with coco/ and voc/ of `mmssprl scenes`, or with "
        "coco128/ and voc128/ (default: data; scenes are generated into the work dir)",
    )
    parser.add_argument(
        "--config",
        help="config with model.backbone of the weights (default: the one beside each file, or "
        "the protocols' own ResNet)",
    )
    parser.add_argument(
        "--seeds", type=int, default=1, metavar="N", help="trainings of each (default: 1)"
    )
    parser.add_argument("--work-dir", help="default: work_dirs/benchmark_<profile>")
    parser.add_argument(
        "--jobs",
        type=int,
        help="runs at a time, all on the first GPU if there is one (default: 1 with a GPU, else "
        "one per core)",
    )
    parser.add_argument(
        "--gpus",
        type=int,
        default=1,
        help="GPUs of each detection and segmentation run of profile paper (default: %(default)s)",
    )
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--resume", action="store_true", help="go on with what the work dir holds")
    group.add_argument(
        "--overwrite", action="store_true", help="delete the runs that the work dir holds"
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="write the configs and print one line of shell commands for each run",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Plan, run what is missing, and report; 1 if a run failed."""
    start = time.perf_counter()
    for name in ("seeds", "gpus", "jobs"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise UserValueError(f"--{name} must be at least 1, but got {value}.")
    # mmpretrain prints while it is imported; the commands of a dry run stand alone on stdout.
    with contextlib.redirect_stdout(sys.stderr if args.dry_run else sys.stdout):
        plan, work_dir = _plan(args)
    if args.dry_run:
        for planned in [*plan.pretraining, *plan.runs]:
            print(planned.shell_line())
        return 0
    from ..benchmark.execute import execute_plan, find_results

    jobs = args.jobs or _default_jobs()
    threads = max(1, (os.cpu_count() or 1) // jobs)
    results = execute_plan(plan, num_jobs=jobs, threads=threads)
    failed = any(result.status == "failed" for result in results)
    results += find_results(work_dir, results)
    _report(results, args.profile, work_dir)
    print(f"{(time.perf_counter() - start) / 60:.1f} min in all")
    return int(failed)


def _plan(args: argparse.Namespace) -> "tuple[Plan, Path]":
    from mmengine.config import Config

    from ..benchmark.plan import make_plan
    from ..benchmark.protocols import DATA, choose_protocols
    from ..benchmark.work_dir import claim, digest, start_anew
    from ..shipped import shipped

    protocols = choose_protocols(args.profile, args.protocols)
    weights = find_weights(args.weights, args.config)
    work_dir = Path(args.work_dir or f"work_dirs/benchmark_{args.profile}")
    generated = args.profile == "scenes" and not args.data
    data = Path(args.data or "data")
    settings = {"profile": args.profile, "data": None if generated else str(data.resolve())}
    digests = {
        "weights": {row.name: digest([row.backbone, _word(row)], row.start) for row in weights},
        "configs": {
            p.name: digest(Config.fromfile(shipped(p.config)).to_dict()) for p in protocols
        },
    }
    starts = {row.name: row.start for row in weights}
    claim(work_dir, settings, digests, starts, resume=args.resume, overwrite=args.overwrite)
    if generated:
        data = _generate_scenes(work_dir)
    plan = make_plan(
        weights,
        protocols,
        profile=args.profile,
        data=data,
        work_dir=work_dir,
        num_seeds=args.seeds,
        num_gpus=args.gpus,
    )
    if args.overwrite:
        start_anew(work_dir, settings, digests)
    print("\n".join(_describe(plan, DATA[args.profile].prefix, data)))
    return plan, work_dir


def find_weights(values: list[str], config: str | None) -> "list[Weights]":
    """Name each argument and find the backbone that belongs to it.

    Raises:
        FileNotFoundError: A file that does not exist.
        ValueError: The same argument twice, or a config without ``model.backbone``.
    """
    from ..benchmark.plan import SUPERVISED, Weights
    from ..weights import RANDOM, find_config

    if len(set(values)) != len(values):
        raise UserValueError(f"weights must be different, but got {' '.join(values)}.")
    files = [Path(value).resolve() for value in values if value not in (RANDOM, SUPERVISED)]
    for path in files:
        if path.stem in (RANDOM, SUPERVISED):
            raise UserValueError(
                f"the name of a file is that of its row, but {path.name} has that of the words "
                f"'{RANDOM}' and '{SUPERVISED}'; rename it."
            )
    backbones: dict[Path, Any] = {}
    for path in files:
        # A file alone, such as torchvision's, is taken for the protocols' own architecture.
        if config or len(list(path.parent.glob("*.py"))) == 1 or not path.is_file():
            backbones[path] = find_config(str(path), config).model.backbone.to_dict()
    if config and not files:
        backbones[Path()] = find_config(RANDOM, config).model.backbone.to_dict()
    kinds = [backbones.get(path) for path in files]
    if any(kind != kinds[0] for kind in kinds) and {RANDOM, SUPERVISED} & set(values):
        raise UserValueError(
            f"'{RANDOM}' and '{SUPERVISED}' need one backbone for all files, but the files have "
            "several; benchmark each backbone in a --work-dir of its own."
        )
    first = next(iter(backbones.values()), None)
    rows = []
    for value in values:
        if value in (RANDOM, SUPERVISED):
            rows.append(Weights(value, value, first))
            continue
        path = Path(value).resolve()
        stems = [other.stem for other in files]
        unique = stems.count(path.stem) == 1
        name = path.stem if unique else f"{path.parent.name}_{path.stem}"
        rows.append(Weights(name, str(path), backbones.get(path)))
    names = [row.name for row in rows]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise UserValueError(
            f"weights must differ in the names of file or folder, but {twice} is there twice; "
            "rename one."
        )
    return rows


def _word(row: "Weights") -> str:
    """The word that a row without a file starts from."""
    return "" if Path(row.start).is_file() else row.start


def _generate_scenes(work_dir: Path) -> Path:
    from ..datasets.scenes import generate_scenes
    from ..datasets.scenes.generate import META_FILE

    folder = work_dir / "scenes"
    if not (folder / META_FILE).exists():
        shutil.rmtree(folder, ignore_errors=True)  # stopped half-way; the folder is ours
    return generate_scenes(folder, num_train=_SCENES_TRAIN, num_val=_SCENES_VAL, size_px=_SCENES_PX)


def _describe(plan: "Plan", prefix: str, data: Path) -> list[str]:
    names = list(dict.fromkeys(run.protocol.name for run in plan.runs))
    rows = list(dict.fromkeys(run.weights for run in plan.runs))
    seeds = len({run.seed for run in plan.runs})
    lines = [
        f"data: {data} (in place of {prefix})",
        f"{len(plan.runs)} runs: {', '.join(names)}; {', '.join(rows)}; {seeds} seed(s)",
    ]
    reasons = {(result.protocol, result.reason): result.weights for result in plan.skipped}
    return lines + [f"skipped: {protocol}: {reason}" for protocol, reason in reasons]


def _default_jobs() -> int:
    import torch

    return 1 if torch.cuda.is_available() else os.cpu_count() or 1


def _report(results: "list[Result]", profile: Any, work_dir: Path) -> None:
    from ..benchmark.tables import format_markdown, format_terminal, write_csv, write_json
    from ..visualization import draw_benchmark

    (work_dir / "table.md").write_text(format_markdown(results, profile) + "\n")
    write_csv(results, work_dir / "results.csv", force=True)
    write_json(results, work_dir / "results.json", force=True)
    draw_benchmark(results, profile).savefig(work_dir / "benchmark.png")
    print(f"\n{format_terminal(results, profile)}\n")
    print(
        f"table, all runs, picture: {work_dir}/{{table.md,results.csv,results.json,benchmark.png}}"
    )
