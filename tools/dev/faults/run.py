"""Inject faults into trainings, and write a table of what they survive.

Each case is a function that takes ``log`` and returns an ``Outcome``; add one to ``CASES``. The
exit code is 1 if anything did not survive.
"""

import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

if __name__ == "__main__":  # before torch looks for a GPU, which forked children cannot use
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import torch

from mmssprl.console.arguments import Parser
from mmssprl.console.tables import csv_table, markdown_table
from mmssprl.engine import launch  # noqa: F401  (once, before the children are forked)
from mmssprl.system.outputs import write_whole

from . import commands, configs, damages, images, kills, memory, planted, weights
from .base import Log, Outcome, describe_run

CASES: dict[str, Callable[[Log], Outcome]] = {
    "saves": partial(kills.aimed_at_saves, kills=200),
    "random": partial(kills.at_random, kills=100),
    "stops": partial(kills.stops, stops=100),
    "orphans": commands.killed_compare,
    **{name: partial(damages.damaged, *damage) for name, damage in damages.DAMAGES.items()},
    "images": images.images,
    "bounds": images.bounds,
    "weights": weights.weights,
    "configs": configs.configs,
    "planted": planted.planted,
    "nan": damages.not_finite,
    "disk": damages.full_disk,
    "memory": memory.memory,
    "memory-workers": partial(memory.memory, num_workers=2),
}
"""Name on the command line -> what injects the fault."""
_HEADS = ("fault", "tries", "survived", "lost steps", "remark")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases that are asked for; see the module's text."""
    parser = Parser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES))
    out = Path("work_dirs/faults")
    parser.add_argument("--out", type=Path, default=out, help="folder of table and CSV")
    args = parser.parse_args(arguments)
    torch.set_num_threads(1)  # the children are forked: no thread may run before
    start = time.monotonic()
    outcomes = []
    for name in args.only:

        def log(line: str, name: str = name) -> None:
            print(f"[{(time.monotonic() - start) / 60:4.1f} min] {name}: {line}", flush=True)

        outcomes.append(CASES[name](log))
    rows = [[str(value) for value in each] for each in outcomes]
    about = describe_run("python -m tools.dev.faults.run", (time.monotonic() - start) / 60)
    text = f"{about}\n\n{markdown_table(_HEADS, rows)}\n"
    args.out.mkdir(parents=True, exist_ok=True)
    write_whole(args.out / "faults.md", text)
    write_whole(args.out / "faults.csv", csv_table(_HEADS, rows))
    print(f"{text}\nwritten: {args.out / 'faults.md'}, {args.out / 'faults.csv'}")
    return int(any(each.survived < each.tries for each in outcomes))


if __name__ == "__main__":
    sys.exit(main())
