"""Keep the logs of runs that no band and no threshold was made from, for the tests to diagnose.

    python -m tools.dev.monitoring.held_out work_dirs/compare_photos/tuning

FOLDER holds the runs of a comparison. Labels tell that a run is healthy: its frozen features are
better than random weights of the same seed.
"""

import json
from pathlib import Path

from mmssprl.console.arguments import Parser
from mmssprl.monitoring.history import read_scalars

from .bands import compact, write_logs

HELD_OUT_FILE = Path(__file__).parents[3] / "tests" / "monitoring" / "held_out.json"
_MOST_LINES = 30


def main() -> None:
    """Read the runs, and write the file."""
    parser = Parser(description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="runs of a comparison")
    folder = parser.parse_args().folder
    results = {p.parent: json.loads(p.read_text()) for p in sorted(folder.glob("*/result.json"))}
    values = {run: result["values"] for run, result in results.items() if not result["reason"]}
    random = {v["seed"]: v["mAP"] for v in values.values() if v["method"] == "random"}
    logs = []
    for run, found in values.items():
        if found["method"] == "random":
            continue
        records = read_scalars(run)
        thinned = records[:: -max(1, len(records) // _MOST_LINES)][::-1]  # with the last one
        logs.append(
            {
                "name": run.name,
                "mAP": round(found["mAP"], 4),
                "random_mAP": round(random[found["seed"]], 4),
                "scalars": compact(thinned),
            }
        )
    write_logs(HELD_OUT_FILE, logs)
    print(f"{HELD_OUT_FILE}: {len(logs)} logs")


if __name__ == "__main__":
    main()
