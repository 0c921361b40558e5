"""Train a model from a config file: pre-training, transfer and baselines alike."""

import argparse
import sys
from pathlib import Path
from typing import Any

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


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    from mmssprl.arguments import Parser
    from mmssprl.tool import add_run_options

    parser = Parser(description=__doc__, epilog=EXAMPLES)
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
    parser.add_argument(
        "--skip-bad-steps",
        type=int,
        metavar="N",
        help="drop up to N updates in a row whose gradient is not finite (default: 0, or what "
        "the run began with)",
    )
    add_run_options(
        parser,
        option="optim_wrapper.optimizer.lr=0.3",
        remark="; a key that no run uses is refused",
    )
    return parser


def train(*, overwrite: bool, **options: Any) -> None:
    """Train as the options say."""
    from mmssprl.engine.finished import finished_line, finished_weights
    from mmssprl.engine.launch import prepare_train_config, run
    from mmssprl.go_on import command_of_process, to_go_on
    from mmssprl.stopping import is_first_process

    cfg = prepare_train_config(overwrite=overwrite, **options)
    weights = finished_weights(cfg)
    if weights is None:
        run(cfg, "train", overwrite=overwrite, go_on=to_go_on(command_of_process()))
    elif is_first_process():
        print(finished_line(cfg, weights))


if __name__ == "__main__":
    from mmssprl.tool import run_command

    run_command("train.py", make_parser, train)
