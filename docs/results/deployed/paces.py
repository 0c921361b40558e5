"""Time steps of SwAV and distillation in turns, and choose the epochs of equal time from them.

    python docs/results/deployed/paces.py COREL5K WORK_DIR

Writes paces.csv. The steps are of the recipes of `mmssprl pretrain`, on one core. All seconds are
CPU time, also for the teacher's pass, so that other work matters less.
"""

import argparse
import json
import resource
from pathlib import Path
from statistics import median

from networks import BACKBONES, TRAINED_BY

from mmssprl.console.tables import csv_table
from mmssprl.datasets import UnlabeledImages
from mmssprl.distillation.maps import TEACHER_PX, keep_maps
from mmssprl.distillation.teacher import load_teacher
from mmssprl.experiments.compare.pace import time_steps
from mmssprl.pretraining.methods import SSPRL
from mmssprl.pretraining.options import PretrainOptions
from mmssprl.pretraining.plan import plan_pretraining

HERE = Path(__file__).parent
BUDGET_S = 45 * 60
NAMES = ("network", "row", "step_s", "turns", "gflops", "pass_s", "epochs", "machine")
COMPONENTS = 256  # of the maps, as in the recipe
KEYS = {"swav-small": SSPRL.key, "distill": "distill"}
"""The key of each row in ``time_steps``, which counts by SS-PRL's."""


def main() -> None:
    """Time the steps of each network."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("work_dir", type=Path)
    asked = parser.parse_args()
    work_dir = asked.work_dir.resolve()
    images = str(asked.data.resolve() / "train2014")
    pass_s = time_pass(work_dir / "pace-maps", images)
    lines = []
    for network, backbone in BACKBONES.items():
        folder = work_dir / f"pace-{network}"
        folder.mkdir(parents=True, exist_ok=True)
        methods = {}
        for row, (option, value) in TRAINED_BY.items():
            options = {option.removeprefix("--"): value, "backbone": backbone, "epochs": 2}
            planned = plan_pretraining(images, folder / row, PretrainOptions(**options))
            for hook in planned.cfg.custom_hooks:
                if hook.type == "TeacherHook":
                    hook.folder = str(work_dir / "pace-maps")
            config = folder / f"{row}.py"
            planned.cfg.dump(config)
            methods[KEYS[row]] = {"config": str(config), "size": None, "options": {}}
        settings = {"methods": methods, "run_steps": 100_000}
        (folder / "settings.json").write_text(json.dumps(settings))
        time_steps(folder)
        measured = json.loads((folder / "measured.json").read_text())
        for row in KEYS:
            own_s = pass_s if row == "distill" else 0.0
            lines.append(line_of(network, row, measured, planned.forecast.steps_per_epoch, own_s))
    (HERE / "paces.csv").write_text(csv_table(NAMES, lines))


def time_pass(folder: Path, images: str) -> float:
    """Return the seconds of the teacher's pass, which leaves its maps in a new folder."""
    teacher = load_teacher("lite:lite0")
    before = cpu_seconds()
    data = UnlabeledImages(images)
    keep_maps(folder, teacher, data, px=TEACHER_PX, size=COMPONENTS, num_workers=1)
    return round(cpu_seconds() - before, 1)


def cpu_seconds() -> float:
    """Return the CPU time of this process and of its ended children."""
    own, others = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def line_of(
    network: str, row: str, measured: dict, steps_per_epoch: int, pass_s: float
) -> list[object]:
    """Return a line of paces.csv."""
    key = KEYS[row]
    step_s = measured["seconds"][key]
    epochs = round((BUDGET_S - pass_s) / (step_s * steps_per_epoch))
    turns = " ".join(f"{median(turn):.3f}" for turn in measured["turns"][key])
    gflops = measured["flops"][key] / 1e9
    return [network, row, step_s, turns, gflops, pass_s, epochs, measured["machine"]]


if __name__ == "__main__":
    main()
