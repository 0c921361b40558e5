"""Time steps of SwAV and distillation in turns, and choose the epochs of equal time from them.

    python docs/results/deployed/paces.py COREL5K WORK_DIR

Writes paces.csv. The steps are those of the recipes of `mmssprl pretrain`, on one core.
"""

import argparse
import json
from pathlib import Path
from statistics import median

from networks import BACKBONES, TRAINED_BY

from mmssprl.console.tables import csv_table
from mmssprl.experiments.compare.pace import time_steps
from mmssprl.pretraining.methods import SSPRL
from mmssprl.pretraining.options import PretrainOptions
from mmssprl.pretraining.plan import make_plan

HERE = Path(__file__).parent
BUDGET_S = 45 * 60
NAMES = ("network", "row", "step_s", "turns", "gflops", "pass_s", "epochs", "machine")
KEYS = {"swav-small": SSPRL.key, "distill": "distill"}
"""The key of each row in ``time_steps``, which counts by SS-PRL's."""


def main() -> None:
    """Time the steps of each network."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("work_dir", type=Path)
    asked = parser.parse_args()
    work_dir = asked.work_dir.resolve()
    lines = []
    for network, backbone in BACKBONES.items():
        folder = work_dir / f"pace-{network}"
        folder.mkdir(parents=True, exist_ok=True)
        methods = {}
        for row, (option, value) in TRAINED_BY.items():
            options = {option.removeprefix("--"): value, "backbone": backbone, "epochs": 2}
            images = str(asked.data.resolve() / "train2014")
            recipe, _, _ = make_plan(images, folder / row, PretrainOptions(**options))
            for hook in recipe.cfg.custom_hooks:
                if hook.type == "TeacherHook":
                    hook.folder = str(work_dir / "pace-maps")
            config = folder / f"{row}.py"
            recipe.cfg.dump(config)
            methods[KEYS[row]] = {"config": str(config), "size": None, "options": {}}
        settings = {"methods": methods, "run_steps": 100_000}
        (folder / "settings.json").write_text(json.dumps(settings))
        time_steps(folder)
        measured = json.loads((folder / "measured.json").read_text())
        lines += [line_of(network, row, measured, recipe.steps_per_epoch) for row in KEYS]
    (HERE / "paces.csv").write_text(csv_table(NAMES, lines))


def line_of(network: str, row: str, measured: dict, steps_per_epoch: int) -> list:
    """Return a line of paces.csv."""
    key = KEYS[row]
    step_s, pass_s = measured["seconds"][key], measured["passes"][key]
    epochs = round((BUDGET_S - pass_s) / (step_s * steps_per_epoch))
    turns = " ".join(f"{median(turn):.3f}" for turn in measured["turns"][key])
    gflops = measured["flops"][key] / 1e9
    return [network, row, step_s, turns, gflops, pass_s, epochs, measured["machine"]]


if __name__ == "__main__":
    main()
