"""Measure the CPU gates and write the report: a table, Markdown, CSV and a picture.

    python tools/benchmarks/run.py
    python tools/benchmarks/run.py --only data --quick --out work_dirs/bench

Missed gates are part of a report: the exit code is 0 all the same, unless --strict is given. A part
that fails is named in the report, which holds what the others measured; the exit code is then 1.
"""

import argparse
import importlib
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import report
import sample_images
from measure import Row, machine

from mmssprl.datasets.unlabeled_images import IMAGE_SUFFIXES

_PARTS = {"data": "data_gates", "large": "large_gates", "step": "step_gates"}
"""Part -> its module, each with ``rows(images, quick, log)``."""

_SECONDS = {"data": 210, "large": 180, "step": 360}
"""What the parts take on two cores, for the estimate only."""

_QUICK_SHARE = 0.25
_NUM_SAMPLES = 64
_ROOT = Path(__file__).resolve().parents[2]
_PHOTOGRAPHS = _ROOT.parent / "shared" / "data" / "coco128" / "train2014"


class _Progress:
    """Lines with the time gone and an estimate of what remains."""

    def __init__(self, parts: Sequence[str], quick: bool) -> None:
        share = _QUICK_SHARE if quick else 1.0
        self._expected = {part: share * _SECONDS[part] for part in parts}
        self._start = self._part_start = time.perf_counter()
        self._part = ""

    def begin(self, part: str) -> Callable[[str], None]:
        """Return the log of a part, which starts now."""
        if self._part:
            del self._expected[self._part]
        self._part, self._part_start = part, time.perf_counter()
        return self._log

    def _log(self, line: str) -> None:
        now = time.perf_counter()
        rest = sum(self._expected.values())
        rest -= min(now - self._part_start, self._expected[self._part])
        gone = f"{(now - self._start) / 60:4.1f} min, about {rest / 60:.0f} more"
        print(f"[{gone}] {self._part}: {line}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts that are asked for; see the module's text."""
    args = _parse(arguments)
    here = machine()  # before the run itself is the load
    progress = _Progress(args.only, args.quick)
    with ExitStack() as stack:
        images, origin = _images(args.images, stack)
        about = [
            f"Images: {origin}. CPU time of one thread, sides interleaved, medians.",
            f"Load of the machine before the run: {here['load before']} on {here['cores']} cores. "
            "On a busy machine the rows by the clock mean nothing and ratios are rough.",
        ]
        if args.quick:
            about.append("**Quick run: few rounds and small data, the numbers are rough.**")
        rows: list[Row] = []
        failed = False
        for part in args.only:
            log = progress.begin(part)
            log("starting")
            try:
                rows += importlib.import_module(_PARTS[part]).rows(images, args.quick, log)
            except Exception as error:  # of one part, which costs its own rows only
                traceback.print_exc()
                about.append(f"**The part {part} failed: {type(error).__name__}: {error}**")
                failed = True
    name = "-".join(["cpu", *(args.only if args.only != list(_PARTS) else [])])
    written = report.write(
        rows,
        args.out,
        f"{name}-quick" if args.quick else name,
        title="mmssprl on a CPU: gates of speed, memory and fidelity",
        machine=here,
        notes=about,
    )
    print(f"\n{report.terminal_table(rows)}\n\n{report.summary(rows)}")
    print("written:", ", ".join(str(path) for path in written))
    return int(failed or (args.strict and any(row.passed is False for row in rows)))


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(__file__).resolve().parent / "results",
        help="folder of the report (default: tools/benchmarks/results)",
    )
    parser.add_argument(
        "--images", type=Path, help="folder of photographs; without any, JPEGs are generated"
    )
    parser.add_argument(
        "--only",
        type=_parts,
        default=list(_PARTS),
        metavar="PART,...",
        help=f"some of {','.join(_PARTS)} (default: all); the files are then named after them",
    )
    parser.add_argument("--quick", action="store_true", help="few rounds: rough numbers")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a gate is missed")
    args = parser.parse_args(arguments)
    if args.images and not args.images.is_dir():
        parser.error(f"--images must be a folder of images, but got {args.images}.")
    return args


def _parts(text: str) -> list[str]:
    wanted = text.split(",")
    unknown = sorted(set(wanted) - set(_PARTS))
    if unknown:
        raise argparse.ArgumentTypeError(f"must be some of {','.join(_PARTS)}, but got {unknown}")
    return [part for part in _PARTS if part in wanted]


def _images(given: Path | None, stack: ExitStack) -> tuple[Path, str]:
    """Return a folder of images and what they are."""
    folder = given or _PHOTOGRAPHS
    if folder.is_dir():
        sizes = [
            file.stat().st_size
            for file in folder.rglob("*")
            if file.suffix.lower() in IMAGE_SUFFIXES
        ]
        mean = sum(sizes) / max(1, len(sizes)) / 1000
        what = "/".join(folder.resolve().parts[-2:])
        return folder, f"{len(sizes)} files of {what}, {mean:.0f} kB on average"
    print(f"generating {_NUM_SAMPLES} images", flush=True)
    made = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench_images")))
    sample_images.write_images(made, _NUM_SAMPLES)
    return made, f"{_NUM_SAMPLES} generated JPEGs, no photographs"


if __name__ == "__main__":
    sys.exit(main())
