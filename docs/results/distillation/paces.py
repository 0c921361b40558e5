"""Time steps of rows in turns, as `compare` does before runs of equal time.

    python docs/results/distillation/paces.py WORK_DIR ROW ...

The runs of rows.py must exist. The first row takes the place of SS-PRL, by which `compare` counts.
"""

import json
import sys
from pathlib import Path

from mmssprl.experiments.compare.pace import time_steps


def main() -> None:
    """Write WORK_DIR/pace/measured.json."""
    work_dir, rows = Path(sys.argv[1]), sys.argv[2:]
    folder = work_dir / "pace"
    folder.mkdir(exist_ok=True)
    run = next((work_dir / "test").glob(f"{rows[0]}-*-seed0"))
    options = json.loads((run / "settings.json").read_text())["options"]
    options = {name: value for name, value in options.items() if "checkpoint" not in name}
    methods = {
        row if index else "ssprl": {
            "config": str(work_dir / "test" / f"{row}.py"),
            "size": None,
            "options": options,
        }
        for index, row in enumerate(rows)
    }
    settings = {"methods": methods, "run_steps": 100_000}
    (folder / "settings.json").write_text(json.dumps(settings))
    time_steps(folder)


if __name__ == "__main__":
    main()
