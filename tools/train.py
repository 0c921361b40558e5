"""Train a model from a config file: pre-training, transfer and baselines alike."""

import argparse
import os
import sys
from pathlib import Path

# A checkout works without being installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

# Here and not in main(): a spawned worker runs only this, before it unpickles mmdet's data set,
# and mmdet asks for mmcv's operators, which mmssprl may have to provide.
import mmssprl  # noqa: E402, F401

EXAMPLES = """examples:
  python tools/train.py configs/ssprl/ssprl_resnet18_scenes.py
  python tools/train.py CONFIG --work-dir work_dirs/a --cfg-options train_dataloader.batch_size=32
  python tools/train.py CONFIG --work-dir work_dirs/a --resume
  python tools/train.py configs/benchmarks/detection/CONFIG --weights BACKBONE.pth
  bash tools/dist_train.sh CONFIG 8 --amp --compile
"""


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line and set LOCAL_RANK for launchers that only pass the flag."""
    from mmengine.config import DictAction

    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("config", help="config file; configs/... finds a shipped one anywhere")
    parser.add_argument(
        "--work-dir", help="folder of the run; default: the config's, or work_dirs/<config name>"
    )
    parser.add_argument(
        "--weights",
        help="backbone weights to start from, for configs of configs/benchmarks: a file, random, "
        "or supervised (torchvision's, trained on ImageNet); if a file does not fit the config's "
        "backbone, that of the config beside the file is taken",
    )
    parser.add_argument(
        "--resume",
        nargs="?",
        const="auto",
        metavar="CHECKPOINT",
        help="go on from CHECKPOINT, or from the newest one in the work dir",
    )
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="start anew in a work dir that holds another run; deletes its checkpoints",
    )
    parser.add_argument(
        "--amp",
        action="store_true",
        help="mixed precision, in bfloat16 unless optim_wrapper.dtype says otherwise",
    )
    parser.add_argument(
        "--compile",
        action="store_true",
        help="pre-training: run the backbone, and on a GPU the augmentation, through "
        "torch.compile; the first steps take minutes",
    )
    parser.add_argument(
        "--cfg-options",
        nargs="+",
        action=DictAction,
        metavar="KEY=VALUE",
        help="replace values of the config, for example optim_wrapper.optimizer.lr=0.3; a key "
        "that no run uses is refused",
    )
    parser.add_argument(
        "--verbose",
        action="store_true",
        help="show what otherwise only the log file gets: environment, config, hooks, all warnings",
    )
    parser.add_argument(
        "--launcher",
        choices=["none", "pytorch", "slurm", "mpi"],
        default="none",
        help="what started the processes; none: a single process",
    )
    parser.add_argument("--local_rank", "--local-rank", type=int, default=0, help="set by launcher")
    args = parser.parse_args(argv)
    os.environ.setdefault("LOCAL_RANK", str(args.local_rank))
    return args


def main() -> None:
    """Train, or end with one line that says which argument does not fit."""
    from mmssprl.console import quiet_console
    from mmssprl.errors import message_for_user

    try:
        # Before mmengine is imported, to read the options: that may warn too.
        with quiet_console(verbose="--verbose" in sys.argv):
            args = vars(parse_args())
            del args["local_rank"], args["verbose"]

            from mmssprl.engine.launch import prepare_train_config, run

            run(prepare_train_config(**args), "train", overwrite=args["overwrite"])
    except Exception as error:
        message = message_for_user(error)
        if message is None:
            raise
        sys.exit(f"train.py: error: {message}")


if __name__ == "__main__":
    main()
