"""Train a model from a config file.

Pre-training, transfer and baselines alike; what tools/train.py of a checkout does. One
process; for several there are tools/dist_train.sh and tools/slurm_train.sh.

examples:
  python -m mmssprl train configs/ssprl/ssprl_resnet18_scenes.py
  python -m mmssprl train CONFIG --work-dir work_dirs/a --cfg-options train_dataloader.batch_size=32
  python -m mmssprl train CONFIG --work-dir work_dirs/a --resume
  python -m mmssprl train configs/benchmarks/detection/CONFIG --weights BACKBONE.pth
"""

import argparse
from typing import Any

from ..console.quiet import quiet_console
from .tool import add_run_options, run_options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("config", help="config file; configs/... finds a shipped one anywhere")
    parser.add_argument(
        "--work-dir", help="folder of the run; default: the config's, or work_dirs/<config name>"
    )
    parser.add_argument(
        "--weights",
        help="backbone weights to start from, for pre-training and configs of configs/benchmarks: "
        "a file, random, or supervised (torchvision's, trained on ImageNet); if a file does not "
        "fit the backbone of a benchmark, that of the config beside the file is taken",
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
    for tracker, title in (("tensorboard", "TensorBoard"), ("wandb", "Weights & Biases")):
        parser.add_argument(f"--{tracker}", action="store_true", help=f"log to {title} as well")
    add_run_options(
        parser,
        option="optim_wrapper.optimizer.lr=0.3",
        remark="; a key that no run uses is refused",
    )


def train(*, overwrite: bool, **options: Any) -> None:
    """Train as the options say."""
    from ..engine.launch import prepare_train_config, run
    from ..saving.work_dir import finished_line, finished_weights
    from ..system.processes import command_of_process, to_go_on
    from ..system.stopping import is_first_process

    cfg = prepare_train_config(overwrite=overwrite, **options)
    weights = finished_weights(cfg)
    if weights is None:
        run(cfg, "train", overwrite=overwrite, go_on=to_go_on(command_of_process()))
    elif is_first_process():
        print(finished_line(cfg, weights))


def run(args: argparse.Namespace) -> int:
    """Train, in this process or as one of several of a launcher."""
    with quiet_console(verbose=args.verbose):
        train(**run_options(args))
    return 0
