"""Measure the gates of a GPU, on synthetic batches and generated JPEGs.

Each part has its own process and time limit, and the report is written after each one: what fails
or takes too long costs its own rows only. Without a CUDA device it says so in one line and ends
with exit code 2.

Legend: B images, N_g crops per image in a resolution group.
"""

import math
import multiprocessing
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import torch
from mmengine.config import Config

from mmssprl.console.arguments import Parser
from mmssprl.engine.launch import prepare_train_config
from mmssprl.pyramid import ViewLayout
from mmssprl.system.environment import peak_bytes, reset_peak_bytes, usable_cores

from .gates import Gate, Row, measured, quartiles, ratio, take_turns
from .gpu_steps import (
    PlainResNet,
    Pretraining,
    WatchHook,
    augmentation_share,
    seconds_per_call,
    train_from_jpeg,
)
from .models import CONFIGS, SHIPPED, equivalent_crops, random_batch, write_images
from .report import machine, summary, table, write

RESULTS = Path(__file__).with_name("results")
_PLAIN_MULTIPLE = 8  # of the plain batch
_NUM_FILES = 128


class Part(NamedTuple):
    """What is measured in one process."""

    crops: int
    compiled: bool
    from_jpeg: bool
    limit_s: float
    ids: tuple[str, ...]  # its gates, which count as missed if it does not get to them


PARTS = {
    "28 crops, eager": Part(28, False, False, 300, ("G1", "G2", "G6", "G10")),
    "28 crops from JPEG": Part(28, False, True, 300, ("G9", "G7")),
    "34 crops, eager": Part(34, False, False, 300, ("G1-34",)),
    "28 crops, compiled": Part(28, True, False, 900, ("G1-compiled", "G2-compiled", "G6-compiled")),
    "34 crops, compiled": Part(34, True, False, 900, ("G1-34-compiled",)),
}
"""In the order of their worth."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and write the report; return the exit code."""
    parser = Parser(prog="python -m tools.dev.speed.gpu", description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=RESULTS, help="folder of the report (default: %(default)s)"
    )
    parser.add_argument("--batch", type=int, default=64, help="images per step (default: 64)")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, nothing compiled")
    args = parser.parse_args(argv)
    if args.batch < 1:
        parser.error(f"--batch must be at least 1, but got {args.batch}.")
    if not torch.cuda.is_available():
        print("gpu.py: error: no CUDA device: it measures GPUs only.", file=sys.stderr)
        return 2

    here = {"gpu": torch.cuda.get_device_name(), "cuda": str(torch.version.cuda), **machine()}
    start = time.monotonic()

    def log(line: str) -> None:
        print(f"[{time.monotonic() - start:5.0f} s] {line}", flush=True)

    rows: list[Row] = []
    for name, part in PARTS.items():
        if args.quick and part.compiled:
            continue
        log(f"part {name}, {part.limit_s:.0f} s at most")
        rows += run_part(part, _send_rows, (name, args.batch, args.quick), log)
        file = write(
            rows,
            args.out,
            "gpu-quick" if args.quick else "gpu",
            title="mmssprl on a GPU",
            machine=here,
            notes=[
                "bfloat16 autocast, channels last, LARC; synthetic batches lie on the GPU. G1, G2, "
                "G6 and G10 are steps without queues; G7 and G9 have full queues."
            ],
        )
    print(f"\n{table(rows)}\n\n{summary(rows)}")
    print(f"written: {file}")
    return 0


def run_part(
    part: Part,
    send_rows: Callable[..., None],
    given: tuple[Any, ...],
    log: Callable[[str], object],
) -> list[Row]:
    """Run a part in its own process, and return its rows: a row that is missing says why."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=send_rows, args=(sender, *given))
    process.start()
    sender.close()

    reason = f"stopped after {part.limit_s:.0f} s"
    end = time.monotonic() + part.limit_s
    rows: list[Row] = []
    while receiver.poll(max(0.0, end - time.monotonic())):
        try:
            found = receiver.recv()
        except EOFError:
            process.join()
            reason = f"the process ended with {process.exitcode}"
            break
        if isinstance(found, str):
            reason = found
            break
        rows.append(found)
        log(f"{found.id}: {found.value:.4g} {found.judged.unit} ({found.judged.what})")
    process.kill()
    process.join()

    found_ids = {row.id for row in rows}
    missing = [row_id for row_id in part.ids if row_id not in found_ids]
    note = f"Not measured: {reason}."
    return rows + [measured(row_id, math.nan, note=note) for row_id in missing]


def _send_rows(sender: Connection, name: str, batch: int, quick: bool) -> None:
    torch.backends.cudnn.benchmark = True  # as env_cfg of the shipped configs
    part = PARTS[name]
    reason = "left out"
    try:
        with tempfile.TemporaryDirectory() as folder:
            cfg = prepare_train_config(
                CONFIGS / SHIPPED[part.crops],
                work_dir=folder,
                amp=True,
                compile=part.compiled,
                cfg_options={"train_dataloader.dataset.data_root": folder},  # must be there
            )
            measure = jpeg_rows if part.from_jpeg else synthetic_rows
            for row in measure(part, cfg, torch.device("cuda"), batch, quick):
                sender.send(row)
    except torch.cuda.OutOfMemoryError:
        reason = f"out of memory with {batch} images; name fewer with --batch"
    except Exception as error:
        traceback.print_exc()
        reason = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    sender.send(reason)


def synthetic_rows(
    part: Part, cfg: Config, device: torch.device, batch: int, quick: bool
) -> Iterator[Row]:
    """Measure one batch on the device: G10, G2, G6 with 28 crops, and G1."""
    rounds, repeats, warmup = (3, 2, 3) if quick else (7, 5, 5)
    suffix = ("-34" if part.crops == 34 else "") + ("-compiled" if part.compiled else "")
    kind = f"{part.crops} crops, {'compiled' if part.compiled else 'eager'}"
    note = f"B = {batch}."

    def seconds(work: Callable[[], object]) -> float:
        return seconds_per_call(device, work, repeats)

    ours = Pretraining(cfg, device, batch)
    seconds_per_call(device, ours.step, warmup)  # compiles, and cudnn chooses
    if not all(torch.isfinite(value).all() for value in ours.losses.values()):
        raise RuntimeError(f"all losses must be finite, but they are {ours.losses}.")

    if "G10" in part.ids:
        reset_peak_bytes(device.type)
        ours.step()
        yield measured("G10", peak_bytes(device.type) / batch / 1e6, note=note)
    if f"G2{suffix}" in part.ids:
        rates = quartiles([batch / seconds(ours.step) for _ in range(rounds)])
        judges = device.type == "cuda" and "H200" in torch.cuda.get_device_name()
        of_h200 = note if judges else f"{note} The gate is for an H200."
        yield measured(f"G2{suffix}", *rates, note=of_h200, gates=judges)
        shares = quartiles([augmentation_share(ours, repeats) for _ in range(rounds)])
        yield measured(f"G6{suffix}", *shares, note=note)

    equivalent = equivalent_crops(part.crops)
    crops = max(1, round(batch * equivalent / _PLAIN_MULTIPLE)) * _PLAIN_MULTIPLE
    plain = PlainResNet(cfg, device, crops)
    seconds_per_call(device, plain.step, warmup)

    found = take_turns({"ours": ours.step, "plain": plain.step}, rounds, seconds)
    per_crop = [s / crops for s in found["plain"]]
    against = ratio(per_crop, [s / (batch * equivalent) for s in found["ours"]])
    plain_note = f"{note} {equivalent:.2f} crops an image; the plain one has {crops} a step."
    yield measured(f"G1{suffix}", *against, note=plain_note)

    per_second = quartiles([1 / s for s in per_crop])
    beside = Gate(f"beside {kind}: plain ResNet, crops of 224 px", "crops/s")
    yield measured(f"plain{suffix}", *per_second, info=beside)
    rate = Gate(f"{kind}: synthetic batch, from the ratio above", "images/s")
    yield measured(f"images{suffix}", against[0] * per_second[0] / equivalent, note=note, info=rate)


def jpeg_rows(
    part: Part,
    cfg: Config,
    device: torch.device,
    batch: int,
    quick: bool,
    workers: int | None = None,
) -> Iterator[Row]:
    """Measure the real loop from JPEG files: G9 and G7."""
    workers = min(16, usable_cores()) if workers is None else workers
    cfg.train_dataloader.update(
        batch_size=batch, num_workers=workers, persistent_workers=workers > 0
    )
    data = random_batch(ViewLayout.build(cfg.model.layout), batch, device)
    watch = WatchHook(device, data, batch, drained=2 * workers, timed=20 if quick else 50)
    with tempfile.TemporaryDirectory() as folder:
        files = sorted(write_images(Path(folder, "images"), _NUM_FILES).iterdir())
        kilobytes = sum(path.stat().st_size for path in files) / len(files) / 1e3
        # A list names the few files as often as an epoch needs.
        names = islice(cycle(path.name for path in files), watch.num_steps * batch)
        Path(folder, "list.txt").write_text("\n".join(names))
        cfg.train_dataloader.dataset.update(
            data_root=folder, data_prefix="images", ann_file="list.txt"
        )
        waits = train_from_jpeg(cfg, Path(folder, "runs"), watch)

    passed = f"{watch.guarded} steps of the runner's loop passed."
    yield measured("G9", 1 if waits else 0, note=waits or passed)
    if waits:
        raise RuntimeError("the host waits for the GPU, see G9")
    note = (
        f"B = {batch}. {watch.jpeg_rate:.0f} against {watch.synthetic_rate:.0f} images/s; "
        f"{len(files)} generated JPEGs of {kilobytes:.0f} kB, {workers} workers, "
        f"{usable_cores()} cores."
    )
    yield measured("G7", watch.jpeg_rate / watch.synthetic_rate, note=note)


if __name__ == "__main__":
    sys.exit(main())
