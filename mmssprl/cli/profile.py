"""Show where the time of a pre-training step goes, and whether the loader keeps up.

Run some training steps from random weights and print the time of every part:
loading (CPU time of one core), copy, augmentation, backbone, heads, Sinkhorn,
optimizer, communication; what to do about it, and a forecast of the whole training.
No work dir, no checkpoint: nothing is written but --out.

examples:
  python -m mmssprl profile configs/ssprl/ssprl_resnet18_scenes.py --data photos/
  python -m mmssprl profile CONFIG --data photos/ --amp --compile
  python -m mmssprl profile CONFIG --cfg-options train_dataloader.num_workers=16 --out profile.json
With several GPUs: torchrun --nproc_per_node 2 -m mmssprl profile CONFIG --launcher pytorch
"""

import argparse
from pathlib import Path

from ..console.wording import wrapped
from ..errors import UserValueError
from ..system.outputs import prepare_output, write_whole
from ..system.stopping import is_first_process
from ._options import ValuesAction

_SUFFIXES = (".json", ".csv")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add = parser.add_argument
    add("config", metavar="CONFIG", help="pre-training config")
    add("--data", metavar="DIR", help="images (default: the config's data_root)")
    add("--steps", type=int, default=30, metavar="N", help="steps to measure (default: 30)")
    add(
        "--batch-size",
        type=int,
        metavar="N",
        help="images per step and process (default: the config's; on a CPU 2)",
    )
    add("--amp", action="store_true", help="mixed precision, as in training")
    add("--compile", action="store_true", help="compile backbone and augmentation, as in training")
    add(
        "--cfg-options",
        nargs="+",
        action=ValuesAction,
        metavar="KEY=VALUE",
        help="replace values of the config",
    )
    add("--out", metavar="FILE", help="write the numbers, .json or .csv")
    add("--force", action="store_true", help="replace an existing file")
    add(
        "--launcher",
        choices=["none", "pytorch"],
        default="none",
        help="what started the processes; none: a single process",
    )


def run(args: argparse.Namespace) -> int:
    """Measure, print the table, and write what was asked for."""
    import json

    is_main = args.launcher == "none" or is_first_process()
    if args.out and Path(args.out).suffix not in _SUFFIXES:
        suffixes = " or ".join(_SUFFIXES)
        raise UserValueError(f"--out must end in {suffixes}, but got {args.out!r}.")
    if args.out and is_main:
        prepare_output(args.out, force=args.force)

    from ..timing import format_csv, format_profile, profile_training
    from ..timing.forecast import forecast_profile

    profile = profile_training(
        args.config,
        data=args.data,
        steps=args.steps,
        batch_size=args.batch_size,
        amp=args.amp,
        compile=args.compile,
        cfg_options=args.cfg_options,
        launcher=args.launcher,
        log=(lambda line: print(line, flush=True)) if is_main else (lambda line: None),
    )
    if not is_main:
        return 0
    print("\n" + format_profile(profile))
    expected = forecast_profile(profile, Path())
    if expected is not None:
        print(f"\n{wrapped(expected.line)}")
    if args.out:
        is_csv = Path(args.out).suffix == ".csv"
        text = format_csv(profile) if is_csv else json.dumps(profile.to_dict(), indent=2) + "\n"
        write_whole(Path(args.out), text)
        print(f"\nnumbers: {args.out}")
    return 0
