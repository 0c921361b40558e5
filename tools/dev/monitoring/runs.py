"""Train healthy runs, and ones with a provoked trouble, and make of them what the package ships.

    python -m tools.dev.monitoring.runs OUT --photos data/corel5k/train2014

Two cores need about half an hour; what is done is not done again. Each healthy run's curves are
read off at twenty shares of the training; the band is their lowest, median and highest. The tests
diagnose the logs of the others.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice, pairwise
from pathlib import Path
from statistics import median
from typing import Any

from mmssprl.console.arguments import Parser
from mmssprl.console.progress import watch
from mmssprl.console.tables import csv_table
from mmssprl.datasets.scenes.generate import generate_scenes
from mmssprl.monitoring.history import BANDS_FILE, HEADS, Record, read_scalars
from mmssprl.system.outputs import write_whole

HEALTHY = "healthy"

_CONFIGS = {
    "ssprl": "configs/ssprl/ssprl_resnet18_{}.py",
    "ssprl-small-sampled": "configs/ssprl/ssprl-small-views-sampled_resnet18_{}.py",
    "swav": "configs/ssprl/ssprl-image-only_resnet18_{}.py",
    "swav-small": "configs/ssprl/ssprl-image-only-small-views_resnet18_{}.py",
    "mocov2": "configs/baselines/mocov2_resnet18_{}.py",
    "byol": "configs/baselines/byol_resnet18_{}.py",
    "densecl": "configs/baselines/densecl_resnet18_{}.py",
}
_QUEUED = ("mocov2", "densecl")
_WARMED_UP = ("mocov2", "byol", "densecl")


@dataclass(frozen=True)
class Case:
    """A run."""

    method: str  # key of _CONFIGS
    size: str  # 'scenes' or 'photos': which of the method's configs
    num_images: int
    epochs: int
    label: str = HEALTHY  # or the key of the trouble of mmssprl.monitoring that is provoked
    images: str = "usual"  # or 'identical' or 'large'
    seed: int = 0
    values: Mapping[str, Any] = field(default_factory=dict)  # of the config, by dotted key
    note: str = ""  # tells cases of one label apart

    @property
    def name(self) -> str:
        """The folder of the run."""
        parts = [self.label, self.note, self.method, self.size, f"{self.num_images}x{self.epochs}"]
        return "_".join([*filter(None, parts), f"seed{self.seed}"])

    def options(self) -> dict[str, Any]:
        """Return what replaces the config's values."""
        warm_up = self.method in _WARMED_UP
        options = {
            "randomness.seed": self.seed,
            "train_cfg.max_epochs": self.epochs,
            f"param_scheduler.{int(warm_up)}.T_max": self.epochs - warm_up,
            "default_hooks.logger.interval": 4,
            "default_hooks.checkpoint.interval": self.epochs,
        }
        if self.method in _QUEUED:
            options["model.queue_length"] = min(512, self.num_images // 2)
        return {**options, **self.values}


_PLANS = (
    ("ssprl", "scenes", 256, 12, 3),
    ("ssprl", "scenes", 1024, 4, 1),
    ("ssprl", "photos", 512, 8, 2),
    ("ssprl", "photos", 2048, 3, 1),
    ("ssprl-small-sampled", "scenes", 256, 12, 1),
    ("ssprl-small-sampled", "photos", 512, 8, 2),
    ("swav", "scenes", 256, 16, 2),
    ("swav", "scenes", 1024, 6, 1),
    ("swav", "photos", 512, 12, 1),
    ("swav", "photos", 2048, 4, 1),
    ("swav-small", "scenes", 256, 10, 1),
    *((method, "scenes", 512, 8, 2) for method in _WARMED_UP),
    *((method, "photos", 512, 8, 1) for method in _WARMED_UP),
)
"""Method, size, images, epochs and seeds of the healthy runs."""
_LR, _DECAY = "optim_wrapper.optimizer.lr", "optim_wrapper.optimizer.weight_decay"

PROVOKED = [
    Case("swav", "scenes", 256, 8, "collapsed", note="lr", values={_LR: 1.0}),
    Case("swav", "scenes", 256, 8, "collapsed", note="decay", values={_DECAY: 100.0}),
    Case("swav", "scenes", 256, 8, "epsilon", values={"model.head.epsilon": 10.0}),
    Case("swav", "scenes", 256, 8, "lr_zero", values={_LR: 0.0}),
    Case("swav", "scenes", 256, 8, "prototypes", values={"model.head.num_prototypes": 3000}),
    Case("swav", "scenes", 256, 8, "identical", images="identical"),
    Case("swav", "scenes", 128, 4, "loader", images="large"),
    Case("ssprl", "scenes", 256, 6, "collapsed", note="lr", values={_LR: 0.3}),
    Case("densecl", "scenes", 256, 8, "collapsed", note="lr", values={_LR: 1.0}),
    Case("mocov2", "scenes", 256, 8, "collapsed", note="lr", values={_LR: 1.0}),
    Case("mocov2", "scenes", 256, 8, "identical", images="identical"),
    Case("byol", "scenes", 256, 8, "lr_zero", values={_LR: 0.0}),
    Case("ssprl", "photos", 256, 5, "epsilon", values={"model.head.epsilon": 10.0}),
    Case("ssprl", "scenes", 256, 6, "identical", images="identical"),
    Case(
        *("ssprl", "photos", 256, 5, "prototypes"),
        values={"model.head.num_patch_prototypes": 5000},
    ),
    Case("swav", "scenes", 256, 8, "at_chance", note="low_lr", values={_LR: 1e-7}),
]
CASES = PROVOKED + [
    Case(method, size, num_images, epochs, seed=seed)
    for method, size, num_images, epochs, num_seeds in _PLANS
    for seed in range(num_seeds)
]


def train(out: Path, photos: Path, only: str) -> None:
    """Train all cases whose name holds ``only``, on scenes and on the images of a folder."""
    scenes = generate_scenes(out / "scenes", num_train=1024, num_val=1, size_px=96)
    sources = {"scenes": scenes / "coco" / "train2014", "photos": photos}
    tool = Path(__file__).parents[2] / "train.py"
    for case in watch([case for case in CASES if only in case.name], "runs"):
        folder = out / "runs" / case.name
        if not any(folder.glob("*_backbone.pth")):
            shutil.rmtree(folder, ignore_errors=True)
            images = out / "images" / f"{case.size}_{case.images}_{case.num_images}"
            _make_images(images, sources[case.size], case)
            options = {**case.options(), "train_dataloader.dataset.data_root": images}
            config = _CONFIGS[case.method].format(case.size)
            command = [sys.executable, str(tool), config, "--work-dir", str(folder)]
            command += ["--cfg-options", *(f"{key}={value}" for key, value in options.items())]
            subprocess.run(command, check=True)


def _make_images(folder: Path, source: Path, case: Case) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    paths = sorted(path for path in source.iterdir() if path.is_file())
    chosen = cycle(paths[:1]) if case.images == "identical" else iter(paths)
    for number, path in enumerate(islice(chosen, case.num_images)):
        target = folder / f"{number:05}{path.suffix}"
        if case.images == "large":
            with Image.open(path) as image:
                image.resize((2000, 2000)).save(target.with_suffix(".png"), compress_level=1)
        else:
            target.symlink_to(path.resolve())


LOGS_FILE = Path(__file__).parents[3] / "tests" / "monitoring" / "logs.json"
_SHARES = [step / 20 for step in range(1, 21)]
_BANDED = ("relative_", "embedding_spread", "effective_rank", "prototypes_in_use_s")
_KEPT = (
    *("step", "epochs_done", "progress", "lr", "time", "data_time", "frozen", "alignment"),
    *(*_BANDED, "code_perplexity_s", "prediction_perplexity_s"),
)


def bands_of(runs: Sequence[Sequence[Record]]) -> list[list[object]]:
    """Return the rows of the table of bands of healthy runs."""
    names = {n for records in runs for r in records for n in r if n.startswith(_BANDED)}
    rows: list[list[object]] = []
    for name in sorted(names):
        curves = [
            [(r["progress"], r[name]) for r in records if name in r]
            for records in runs
            if any(name in r for r in records)
        ]
        for share in _SHARES:
            values = [_at(curve, share) for curve in curves]
            found = [f"{pick(values):.4g}" for pick in (min, median, max)]
            rows.append([name, share, *found, len(curves)])
    return rows


def write_bands(folder: Path) -> None:
    """Write the bands of the healthy runs, and the logs that the tests diagnose."""
    runs = [(case, read_scalars(folder / case.name)) for case in CASES]
    healthy = [records for case, records in runs if case.label == HEALTHY]
    write_whole(BANDS_FILE, csv_table(HEADS, bands_of(healthy)))
    logs = [
        {"name": case.name, "label": case.label, "scalars": compact(records)}
        for case, records in runs
        if case.label != HEALTHY or case.seed == 0  # the tests need no more
    ]
    lines = ",\n".join(json.dumps(log, separators=(",", ":")) for log in logs)
    write_whole(LOGS_FILE, f"[\n{lines}\n]\n")
    print(f"{BANDS_FILE}: {len(healthy)} healthy runs\n{LOGS_FILE}: {len(logs)} logs")


def _at(curve: Sequence[tuple[float, float]], share: float) -> float:
    """Interpolate between the lines of a log; before the first it is the first."""
    for (before, low), (after, high) in pairwise(curve):
        if before <= share <= after:
            return low + (high - low) * (share - before) / (after - before)
    return curve[0][1] if share < curve[0][0] else curve[-1][1]


def compact(records: Sequence[Record]) -> dict[str, list[float | None]]:
    """Return a log by scalar, with three digits."""
    names = [name for name in records[-1] if name.startswith(_KEPT)]
    return {n: [float(f"{r[n]:.3g}") if n in r else None for r in records] for n in names}


if __name__ == "__main__":
    parser = Parser(description=__doc__)
    parser.add_argument("out", type=Path, metavar="OUT", help="folder of images and runs")
    parser.add_argument("--photos", type=Path, required=True, help="folder of photographs")
    parser.add_argument("--only", default="", help="train cases whose name holds this, no more")
    args = parser.parse_args()
    train(args.out, args.photos, args.only)
    if not args.only:
        write_bands(args.out / "runs")
