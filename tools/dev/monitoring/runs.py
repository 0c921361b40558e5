"""Train healthy runs, and ones with a provoked trouble; what is done is not done again.

    python -m tools.dev.monitoring.runs OUT --photos data/corel5k/train2014

Two cores need about half an hour. ``bands`` makes of them what the package ships.
"""

import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from PIL import Image

from mmssprl.console.arguments import Parser
from mmssprl.console.progress import watch
from mmssprl.datasets.scenes.generate import generate_scenes

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


if __name__ == "__main__":
    parser = Parser(description=__doc__)
    parser.add_argument("out", type=Path, metavar="OUT", help="folder of images and runs")
    parser.add_argument("--photos", type=Path, required=True, help="folder of photographs")
    parser.add_argument("--only", default="", help="cases whose name holds this")
    args = parser.parse_args()
    train(args.out, args.photos, args.only)
