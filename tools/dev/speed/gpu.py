"""Measure the gates of a GPU, on synthetic batches and generated JPEGs.

Where there is no CUDA device it says so in one line and ends with exit code 2.
"""

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from mmssprl.console.arguments import Parser
from mmssprl.engine.launch import prepare_train_config
from mmssprl.system.environment import usable_cores

from .common.machine import machine
from .common.models import CONFIGS, SHIPPED
from .common.report import summary, table, write
from .on_gpu.measures import Workload
from .on_gpu.meter import Meter, describe_gpu
from .on_gpu.parts import all_parts, run_parts

EXAMPLES = """examples, from the root of the repository:
  python -m tools.dev.speed.gpu
  python -m tools.dev.speed.gpu --out work_dirs/gpu --batch 32 --quick
"""
RESULTS = Path(__file__).with_name("results")
_MAX_WORKERS = 16
_PREFETCHED = 2  # batches per worker, torch's default


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and write the report; return the exit code."""
    parser = Parser(prog="python -m tools.dev.speed.gpu", description=__doc__, epilog=EXAMPLES)
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
    start = time.monotonic()

    def log(line: str) -> None:
        print(f"[{time.monotonic() - start:5.0f} s] {line}", flush=True)

    torch.backends.cudnn.benchmark = True  # as env_cfg of the shipped configs
    here = {**describe_gpu(), **machine()}
    with tempfile.TemporaryDirectory() as folder:
        workload = shipped_workload(args.batch, args.quick, Path(folder))
        log(f"{here['gpu']}: {workload.equivalent(28):.2f} and {workload.equivalent(34):.2f} crops")
        rows = run_parts(Meter(), workload, all_parts(args.quick), log)
    files = write(
        rows,
        args.out,
        "gpu-quick" if args.quick else "gpu",
        title="mmssprl on a GPU",
        machine=here,
        notes=[
            "bfloat16 autocast, channels last, LARC; synthetic batches lie on the GPU. G1, G2, G6 "
            "and G10 are steps without queues; in those of G7 and G9 queues are full."
        ],
    )
    print(f"\n{table(rows)}\n\n{summary(rows)}")
    print(f"written: {', '.join(str(path) for path in files)}")
    return 0


def shipped_workload(batch: int, quick: bool, folder: Path) -> Workload:
    """Return what is measured on the shipped configs."""
    workers = min(_MAX_WORKERS, usable_cores())
    return Workload(
        batch=batch,
        rounds=3 if quick else 7,
        repeats=2 if quick else 5,
        warmup=3 if quick else 5,
        guarded=10,
        drained=_PREFETCHED * workers,
        timed=20 if quick else 50,
        synthetic=10,
        workers=workers,
        num_files=32 if quick else 128,
        config=lambda crops, compiled: prepare_train_config(
            CONFIGS / SHIPPED[crops],
            work_dir=folder,
            amp=True,
            compile=compiled,
            cfg_options={"train_dataloader.dataset.data_root": str(folder)},  # must be there
        ),
        gate_2="H200" in torch.cuda.get_device_name(),
    )


if __name__ == "__main__":
    sys.exit(main())
