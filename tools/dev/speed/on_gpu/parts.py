"""The parts of gpu.py: what is measured together."""

import math
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

import torch

from mmssprl.pyramid import ViewLayout
from mmssprl.system.environment import usable_cores

from ..common.gates import Gate, Row, measured
from ..common.models import random_batch
from ..common.sample_images import write_images
from .loop import WatchHook, loader_rate, train_from_jpeg
from .measures import (
    PlainResNet,
    Pretraining,
    Workload,
    against_plain,
    augmentation_difference,
    augmentation_share,
    images_per_second,
    peak_bytes_per_image,
)
from .meter import Meter

_PLAIN_MULTIPLE = 8  # of the plain batch


class Part(NamedTuple):
    """Measurements that share a model.

    Attributes:
        name: For the log.
        ids: Its gates, which count as missed if it does not get to them.
        measure: Yields rows.
    """

    name: str
    ids: tuple[str, ...]
    measure: Callable[[Meter, Workload], Iterator[Row]]


def run_parts(
    meter: Meter, workload: Workload, parts: Sequence[Part], log: Callable[[str], None]
) -> list[Row]:
    """Run the parts and return all rows; each is logged at once, so that no crash takes it back.

    A part that fails costs its own rows only: they say why and are missed.
    """
    rows: list[Row] = []
    for i, part in enumerate(parts, start=1):
        log(f"part {i} of {len(parts)}: {part.name}")
        reason = "left out"
        try:
            for row in part.measure(meter, workload):
                rows.append(row)
                log(f"{row.id}: {row.value:.4g} {row.judged.unit} ({row.judged.what}) {row.note}")
        except torch.cuda.OutOfMemoryError:
            reason = f"out of memory with {workload.batch} images; name fewer with --batch"
        except Exception as error:
            log(traceback.format_exc())
            reason = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        found = {row.id for row in rows}
        note = f"Not measured: {reason}."
        rows += [
            measured(row_id, math.nan, note=note) for row_id in part.ids if row_id not in found
        ]
        meter.free()
        torch._dynamo.reset()
    return rows


def synthetic_part(num_crops: int, compiled: bool) -> Part:
    """Return the part that measures a synthetic batch: G10, G2, G6 with 28 crops, and G1."""
    suffix = ("-34" if num_crops == 34 else "") + ("-compiled" if compiled else "")
    name = f"{num_crops} crops, {'compiled' if compiled else 'eager'}"
    gates = ["G1"]
    if num_crops == 28:
        gates += ["C14", "G2", "G6"] if compiled else ["C14", "G2", "G6", "G10"]

    def measure(meter: Meter, workload: Workload) -> Iterator[Row]:
        batch, note = workload.batch, f"B = {workload.batch}."
        cfg = workload.config(num_crops, compiled)
        ours = Pretraining(cfg, meter.device, batch)
        first = Gate(f"{name}: first {workload.warmup} steps, compilers and cudnn's choice", "s")
        seconds = workload.warmup * meter.seconds_per_call(ours.step, workload.warmup)
        if not all(torch.isfinite(value).all() for value in ours.losses.values()):
            raise RuntimeError(f"all losses must be finite, but they are {ours.losses}.")
        yield measured(f"first_steps{suffix}", seconds, info=first)
        if "G10" in gates:
            yield measured("G10", peak_bytes_per_image(meter, ours) / 1e6, note=note)
        if "G2" in gates:
            rates = images_per_second(meter, ours, workload)
            yield measured(f"C14{suffix}", augmentation_difference(ours), note=note)
            of_h200 = note if workload.gate_2 else f"{note} The gate is for an H200."
            yield measured(f"G2{suffix}", *rates, note=of_h200, gates=workload.gate_2)
            share, (middle, *_) = augmentation_share(meter, ours, workload)
            yield measured(f"G6{suffix}", *share, note=f"{middle:.2f} ms a step, {note}")
        equivalent = workload.equivalent(num_crops)
        crops = max(1, round(batch * equivalent / _PLAIN_MULTIPLE)) * _PLAIN_MULTIPLE
        plain = PlainResNet(cfg, meter.device, crops)
        meter.seconds_per_call(plain.step, workload.warmup)
        against, per_second = against_plain(meter, ours, plain, workload, equivalent)
        plain_note = f"{note} {equivalent:.2f} crops an image; the plain one has {crops} a step."
        yield measured(f"G1{suffix}", *against, note=plain_note)
        beside = Gate(f"beside {name}: plain ResNet, crops of 224 px", "crops/s")
        yield measured(f"plain{suffix}", *per_second, info=beside)
        rate = Gate(f"{name}: synthetic batch, from the ratio above", "images/s")
        images = against[0] * per_second[0] / equivalent
        yield measured(f"images{suffix}", images, note=note, info=rate)

    return Part(name, tuple(f"{gate}{suffix}" for gate in gates), measure)


def from_jpeg(meter: Meter, workload: Workload) -> Iterator[Row]:
    """Measure the real loop from JPEG files: G9, G7 and what the loader needs."""
    cfg = workload.config(28, False)
    data = random_batch(ViewLayout.build(cfg.model.layout), workload.batch, meter.device)
    watch = WatchHook(meter, workload, data)
    with tempfile.TemporaryDirectory() as folder:
        files = sorted(write_images(f"{folder}/images", workload.num_files).iterdir())
        kilobytes = sum(path.stat().st_size for path in files) / len(files) / 1e3
        # A list names the few files as often as an epoch needs.
        names = islice(cycle(path.name for path in files), workload.num_steps * workload.batch)
        Path(folder, "list.txt").write_text("\n".join(names))
        cfg.train_dataloader.dataset.update(
            data_root=folder, data_prefix="images", ann_file="list.txt"
        )
        loader = loader_rate(cfg, workload)
        waits = train_from_jpeg(cfg, Path(folder, "runs"), watch)
    source = f"{len(files)} generated JPEGs of {kilobytes:.0f} kB, {workload.workers} workers"
    yield measured("loader", loader, note=source)
    passed = f"{watch.guarded} steps of the runner's loop passed."
    yield measured("G9", 1 if waits else 0, note=waits or passed)
    if waits:
        raise RuntimeError("the host waits for the GPU, see G9")
    # The timed steps may use up batches that were made before them; the loader alone cannot.
    rate = min(watch.jpeg_rate, loader)
    rates = watch.synthetic_rates
    synthetic = sum(rates) / len(rates)
    note = (
        f"B = {workload.batch}. {watch.jpeg_rate:.0f} in the loop and {loader:.0f} by the "
        f"loader alone, the slower one counts, against {synthetic:.0f} images/s; {source}, "
        f"{usable_cores()} cores."
    )
    yield measured("G7", rate / synthetic, rate / max(rates), rate / min(rates), note=note)


def all_parts(quick: bool) -> list[Part]:
    """Return the parts in the order of their worth; ``quick`` leaves out what is compiled."""
    jpeg = Part("28 crops from JPEG", ("G9", "G7"), from_jpeg)
    eager = [synthetic_part(28, False), jpeg, synthetic_part(34, False)]
    return eager if quick else [*eager, synthetic_part(28, True), synthetic_part(34, True)]
