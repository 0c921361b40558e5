"""Measure the CPU gates and write the report, a table in Markdown.

Missed gates are part of a report: the exit code is 0 all the same. A part that fails is named in
the report, which holds what the others measured; the exit code is then 1.
"""

import importlib
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from mmssprl.console.arguments import Parser
from mmssprl.datasets import UnlabeledImages

from .gates import Row
from .models import write_images
from .report import machine, summary, table, write

_PARTS = {"data": ".data_rows", "step": ".step_rows"}
"""Part -> its module, each with ``rows(images, quick, log)``."""

_NUM_SAMPLES = 64
RESULTS = Path(__file__).with_name("results")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts that are asked for; see the module's text."""
    parser = Parser(prog="python -m tools.dev.speed.cpu", description=__doc__)
    add = parser.add_argument
    add("--out", type=Path, default=RESULTS, help="folder of the report (default: %(default)s)")
    help_images = "folder of photographs, at least 16; without it, JPEGs are generated"
    add("--images", type=Path, metavar="DIR", help=help_images)
    add("--only", choices=list(_PARTS), help="one part; the files are then named after it")
    add("--quick", action="store_true", help="few rounds: rough numbers")
    args = parser.parse_args(arguments)
    if args.images and not args.images.is_dir():
        parser.error(f"--images must be a folder of images, but got {args.images}.")

    here = machine()  # before the run itself is the load
    notes = [
        f"Load of the machine before the run: {here['load before']} on {here['cores']} cores. "
        "On a busy machine the rows by the clock mean nothing and ratios are rough."
    ]
    if args.quick:
        notes.append("**Quick run: few rounds and small data, the numbers are rough.**")
    parts = [args.only] if args.only else list(_PARTS)
    with ExitStack() as stack:
        images, origin = _images(args.images, stack)
        rows, failures = _measure(parts, images, quick=args.quick)

    name = f"cpu-{args.only}" if args.only else "cpu"
    made_of = f"Images: {origin}. CPU time of one thread, sides interleaved, medians."
    written = write(
        rows,
        args.out,
        f"{name}-quick" if args.quick else name,
        title="mmssprl on a CPU: gates of speed and memory",
        machine=here,
        notes=[made_of, *notes, *failures],
    )
    print(f"\n{table(rows)}\n\n{summary(rows)}")
    print("written:", written)
    return 1 if failures else 0


def _measure(parts: Sequence[str], images: Path, *, quick: bool) -> tuple[list[Row], list[str]]:
    """Return the rows of all parts, and a note for each part that failed."""
    rows: list[Row] = []
    failures = []
    start = time.monotonic()
    for part in parts:

        def log(line: str, part: str = part) -> None:
            gone = (time.monotonic() - start) / 60
            print(f"[{gone:4.1f} min] {part}: {line}", flush=True)

        try:
            module = importlib.import_module(_PARTS[part], __package__)
            rows += module.rows(images, quick, log)
        except Exception as error:  # of one part, which costs its own rows only
            traceback.print_exc()
            failures.append(f"**The part {part} failed: {type(error).__name__}: {error}**")
    return rows, failures


def _images(given: Path | None, stack: ExitStack) -> tuple[Path, str]:
    """Return a folder of images and what they are."""
    if given is None:
        made = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="speed_images")))
        return write_images(made, _NUM_SAMPLES), f"{_NUM_SAMPLES} generated JPEGs, no photographs"
    names = UnlabeledImages(data_root=str(given)).names
    mean = sum((given / name).stat().st_size for name in names) / len(names) / 1000
    what = "/".join(given.resolve().parts[-2:])
    return given, f"{len(names)} files of {what}, {mean:.0f} kB on average"


if __name__ == "__main__":
    sys.exit(main())
