"""Train the runs of ``cases``, one after the other; those that are done are not done again.

    python -m tools.dev.monitoring.train OUT --photos data/corel5k/train2014

Two cores need about half an hour. ``bands`` makes of them what the package ships.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from mmssprl.console.arguments import Parser
from mmssprl.console.progress import watch
from mmssprl.datasets.scenes.generate import generate_scenes

from .cases import CASES, Case

_TRAIN = Path(__file__).parents[2] / "train.py"


def train(out: Path, photos: Path, only: str) -> None:
    """Train all cases whose name holds ``only``."""
    scenes = generate_scenes(out / "scenes", num_train=1024, num_val=1, size_px=96)
    sources = {"scenes": scenes / "coco" / "train2014", "photos": photos}
    for case in watch([case for case in CASES if only in case.name], "runs"):
        folder = out / "runs" / case.name
        if not any(folder.glob("*_backbone.pth")):
            shutil.rmtree(folder, ignore_errors=True)
            images = out / "images" / f"{case.size}_{case.images}_{case.num_images}"
            if not images.exists():
                _make_images(images, sources[case.size], case)
            options = {**case.options(), "train_dataloader.dataset.data_root": images}
            command = [sys.executable, str(_TRAIN), case.config, "--work-dir", str(folder)]
            command += ["--cfg-options", *(f"{key}={value}" for key, value in options.items())]
            subprocess.run(command, check=True)


def _make_images(folder: Path, source: Path, case: Case) -> None:
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    for number, path in zip(range(case.num_images), _chosen(source, case.images), strict=False):
        target = part / f"{number:05}{path.suffix}"
        if case.images == "large":
            _enlarge(path, target.with_suffix(".png"))
        else:
            target.symlink_to(path.resolve())
    part.rename(folder)


def _chosen(source: Path, images: str) -> Iterator[Path]:
    paths = sorted(path for path in source.iterdir() if path.is_file())
    while True:
        yield from paths[:1] if images == "identical" else paths
        if images != "identical":
            return


def _enlarge(path: Path, target: Path) -> None:
    from PIL import Image

    with Image.open(path) as image:
        image.resize((2000, 2000)).save(target, compress_level=1)


def main() -> None:
    """Parse the command line and train."""
    parser = Parser(description=__doc__)
    parser.add_argument("out", type=Path, metavar="OUT", help="folder of images and runs")
    parser.add_argument("--photos", type=Path, required=True, help="folder of photographs")
    parser.add_argument("--only", default="", help="cases whose name holds this")
    args = parser.parse_args()
    train(args.out, args.photos, args.only)


if __name__ == "__main__":
    main()
