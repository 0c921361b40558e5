"""Compute how SS-PRL's pre-training scales over GPUs; nothing here is measured.

Prints Markdown; --write puts what the defaults print into scaling.md, where the law is derived.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path

# A checkout works without being installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from counts import (
    SHIPPED,
    activation_bytes,
    loader_counts,
    parameter_counts,
    shipped_config,
)
from report import read_csv
from scaling_inputs import GPUS, PUBLISHED, Assumptions, Cluster, Latencies
from scaling_law import rate, roofline_seconds
from step_events import (
    convolution_flops,
    equivalent_crops,
    num_waits,
    overlap_share,
    plain_events,
    total_bytes,
    total_flops,
    training_events,
)

from mmssprl.outputs import write_whole

EXAMPLES = """examples:
  python tools/benchmarks/scaling.py
  python tools/benchmarks/scaling.py --gpu h100 --gpus 1 4 8 32 --crops 34 --cores-per-node 64
  python tools/benchmarks/scaling.py --write
"""
DOCUMENT = Path(__file__).with_name("scaling.md")
BEGIN, END = "<!-- scaling.py begins -->", "<!-- scaling.py ends -->"
RESULTS = Path(__file__).with_name("results") / "cpu.csv"
LOADER_ROW = "ours_{crops}_ms"
"""Id of the row in RESULTS with the loader's CPU time of one image (loader_times.py)."""

_ASSUMED_LOADER_MS = 6.0
_WEIGHT_COPIES = 4  # weights, gradients, momentum, DDP's buckets


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables, or write them into the document."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gpu", nargs="+", choices=GPUS, default=list(GPUS))
    parser.add_argument("--gpus", nargs="+", type=int, default=[1, 8, 64], metavar="N")
    parser.add_argument("--crops", nargs="+", type=int, choices=SHIPPED, default=list(SHIPPED))
    parser.add_argument("--batch", type=int, default=64, help="images per GPU")
    parser.add_argument("--cores-per-node", type=float, help="default: all of the node")
    parser.add_argument(
        "--loader-ms",
        type=float,
        help="CPU ms of one core per image; default: what results/cpu.csv says, if it is there",
    )
    parser.add_argument("--write", action="store_true", help=f"into {DOCUMENT.name}")
    args = parser.parse_args(argv)
    if min(args.gpus) < 1 or args.batch < 1:
        parser.error("--gpus and --batch must be at least 1.")
    for name in ("cores_per_node", "loader_ms"):
        value = getattr(args, name)
        if value is not None and value <= 0:
            parser.error(f"--{name.replace('_', '-')} must be above 0, but got {value:g}.")
    options = {key: value for key, value in vars(args).items() if key != "write"}
    if args.write and any(value != parser.get_default(key) for key, value in options.items()):
        parser.error(f"--write takes no other option: {DOCUMENT.name} holds what the defaults say.")
    try:
        text = tables(**options)
    except ValueError as error:
        parser.error(str(error))
    if args.write:
        document = DOCUMENT.read_text(encoding="utf-8")
        write_whole(DOCUMENT, insert(document, text))
    else:
        print(text)
    return 0


def insert(document: str, text: str) -> str:
    """Replace what stands between the markers of a document.

    Raises:
        ValueError: The document does not hold both markers once.
    """
    pattern = re.compile(f"(?<={re.escape(BEGIN)}\n).*(?={re.escape(END)})", re.DOTALL)
    if document.count(BEGIN) != 1 or document.count(END) != 1 or not pattern.search(document):
        raise ValueError(f"the document must hold {BEGIN!r} and then {END!r}, once each.")
    return pattern.sub(lambda _: f"\n{text}\n\n", document)


def tables(
    gpu: Sequence[str],
    gpus: Sequence[int],
    crops: Sequence[int],
    batch: int,
    cores_per_node: float | None,
    loader_ms: float | None,
) -> str:
    """Return the inputs, the counts and the expected rates as Markdown.

    Raises:
        ValueError: GPUs that do not fill their nodes.
    """
    loader = {num: (loader_ms, "given") if loader_ms else measured_loader(num) for num in crops}
    given = Assumptions(calibrated_efficiency())
    steps, needs = [], []
    for name in gpu:
        for num in crops:
            events = training_events(num, batch)
            single = 0.0
            for n in gpus:
                cluster = Cluster(GPUS[name], n)
                found = rate(
                    events,
                    batch,
                    cluster,
                    given,
                    loader_ms=loader[num][0],
                    crop_bytes=crop_bytes(num),
                    cores_per_node=cores_per_node or cluster.gpu.cores_per_node,
                )
                single = single or found.images / n
                head = [name, num, n]
                s = found.step
                steps.append(
                    [*head, *(_ms(t) for t in (s.total, s.gpu, s.norm, s.sinkhorn, s.gradients))]
                    + [f"{found.images:,.0f}", f"{found.images / n / single:.0%}", found.limit]
                )
                needs.append(
                    [*head, f"{found.cores_per_node:.0f}", f"{found.jpeg_mb_per_node:,.0f}"]
                    + [f"{found.pcie_gb_per_gpu:.2f}", f"{found.network_gbit_per_node:.0f}"]
                )
    first = f"{gpus[0]} GPU" + ("s" if gpus[0] > 1 else "")
    head = ["GPU", "crops", "n"]
    return "\n\n".join(
        [
            "### Expected (computed, not measured)",
            _table(
                [*head, "step ms", "kernels ms", "SyncBN ms", "Sinkhorn ms", "gradients ms"]
                + ["images/s", f"of {first}", "limit"],
                steps,
            ),
            "### What the nodes must bring (computed, not measured)",
            _table(
                [*head, "cores/node", "JPEG MB/s/node", "PCIe GB/s/GPU", "network Gbit/s/node"],
                needs,
            ),
            "### Counts",
            _table(["what", *(f"{num} crops" for num in crops)], count_rows(crops, batch)),
            "### Inputs",
            _table(["what", "value", "source"], input_rows(gpu, batch, given, loader)),
        ]
    )


def count_rows(crops: Sequence[int], batch: int) -> list[list]:
    """Return one row per count, each counted from the shipped models."""
    columns = []
    for num in crops:
        config, events = shipped_config(num), training_events(num, batch)
        parameters = parameter_counts(config)
        backbone = convolution_flops(events) / batch
        crops_of_224 = equivalent_crops(num, batch, PUBLISHED.batch)
        heads = total_flops(events) / batch - backbone
        activations = activation_bytes(config, bfloat16=True)
        gather = [e for e in events if e.what == "Sinkhorn"]
        memory = batch * activations + _WEIGHT_COPIES * parameters["gradient_bytes"]
        columns.append(
            {
                "F, GFLOP per image, backbone": f"{backbone / 1e9:.1f}",
                "F, GFLOP per image, heads": f"{heads / 1e9:.2f}",
                "crops of 224 px of equal FLOPs": f"{crops_of_224:.2f}",
                "Q, GB of memory traffic per image": (
                    f"{total_bytes(events, 'op') / batch / 1e9:.2f}"
                ),
                "ops per step": f"{sum(e.kind == 'op' for e in events):,}",
                "activations, MB per image": f"{activations / 1e6:.0f}",
                f"memory of B = {batch} images, at least, GB": f"{memory / 1e9:.0f}",
                "G, MB of gradients": f"{parameters['gradient_bytes'] / 1e6:.0f}",
                "share of F left when the first of the backbone's is final": (
                    f"{overlap_share(events):.0%}"
                ),
                "SyncBN collectives per step": num_waits(events, "SyncBN"),
                "Sinkhorn collectives per step": len(gather),
                "kB in each of these": f"{gather[0].num_bytes / 1e3:.1f}",
                "MB of crops per image": f"{crop_bytes(num) / 1e6:.2f}",
            }
        )
    return [[name, *(column[name] for column in columns)] for name in columns[0]]


def input_rows(
    gpu: Sequence[str], batch: int, given: Assumptions, loader: dict[int, tuple[float, str]]
) -> list[list]:
    """Return one row per input: what, value, source."""
    rows: list[list] = [["B, images per GPU", batch, "configs/ssprl, 2 x 64"]]
    for name in gpu:
        g = GPUS[name]
        rows += [
            [f"{name}: P, TFLOP/s bfloat16, dense", f"{g.tflops:g}", g.source],
            [f"{name}: M, TB/s of HBM; size, GB", f"{g.hbm_tb_s:g}; {g.memory_gb:g}", ""],
            [f"{name}: NVLink, GB/s per direction", f"{g.nvlink_gb_s:g}", ""],
            [f"{name}: network, GB/s per direction and GPU", f"{g.nic_gb_s:g}", ""],
            [f"{name}: PCIe, GB/s per direction", f"{g.pcie_gb_s:g}", ""],
            [f"{name}: g; cores per node", f"{g.gpus_per_node}; {g.cores_per_node}", ""],
        ]
    published = f"{PUBLISHED.images_per_s:g} images/s, batch {PUBLISHED.batch}: {PUBLISHED.source}"
    assumed = "assumption"
    rows += [
        ["eta, share of the roofline", f"{given.efficiency:.3f}", published],
        ["a, share of augmentation", f"{given.augment_share:g}", f"{assumed}: gate G6, eager"],
        ["h, host us per op", f"{given.host_us:g}", assumed],
        ["c, us per collective beside its steps", f"{given.collective_us:g}", assumed],
        ["share of a link's bandwidth, large", f"{given.link_share:g}", assumed],
        [
            "DDP's buckets, MiB, first and others",
            f"{given.first_bucket_bytes / 2**20:g}; {given.bucket_bytes / 2**20:g}",
            "torch's defaults",
        ],
        ["J, kB per JPEG", f"{given.jpeg_bytes / 1e3:g}", f"{assumed}: COCO, 640x480"],
    ]
    rows += [[f"r, loader ms per image, {num} crops", f"{ms:.3g}", source]
             for num, (ms, source) in loader.items()]  # fmt: skip
    source = "NCCL's tuner, src/graph/tuning.cc"
    for field in fields(Latencies):
        value = getattr(Latencies(), field.name)
        unit = "us: " if field.name.startswith(("ring", "tree")) else ""
        rows.append([f"{unit}{field.name.replace('_', ' ')}", f"{value:g}", source])
    return rows


@cache
def calibrated_efficiency() -> float:
    """Share of the summed rooflines at which a plain ResNet-50 runs, by a published rate."""
    events = plain_events(PUBLISHED.batch)
    return roofline_seconds(events, GPUS[PUBLISHED.gpu]) * PUBLISHED.images_per_s / PUBLISHED.batch


@cache
def crop_bytes(num_crops: int) -> int:
    """Bytes of one image's crops as the loader sends them."""
    return loader_counts(shipped_config(num_crops).model.layout)["bytes"]


def measured_loader(num_crops: int, results: Path = RESULTS) -> tuple[float, str]:
    """Return the loader's CPU milliseconds per image and where they are from."""
    name = LOADER_ROW.format(crops=num_crops)
    measured = read_csv(results) if results.is_file() else []
    for row in measured:
        if row.id == name:
            return row.value, f"measured on a CPU: results/{results.name}, {name}"
    return _ASSUMED_LOADER_MS, f"assumption: no {name} in results/{results.name} yet"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.1f}"


def _table(head: Sequence, rows: Sequence[Sequence]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
