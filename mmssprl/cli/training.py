"""Pre-train, train, test and time a config: `pretrain`, `train`, `test` and `profile`."""

import argparse
import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from ..console.options import add_options
from ..console.quiet import quiet_console, say
from ..console.wording import command_line, wrapped
from ..errors import UserValueError
from ..pretraining.options import PretrainOptions
from ..system.outputs import prepare_output, write_whole
from ..system.stopping import is_first_process
from ._command import Command, ValuesAction, add_cfg_options
from .tool import add_run_options, run_options

_PRETRAIN = """\
Pre-train on your own images.

Pre-train a backbone on all images below a folder, or in a tar file. Sizes, batch,
learning rate and the method's own numbers are chosen from the number of images and
devices; the recipe is printed and written as a config into the work dir. Some timed
steps then tell how long the run will take.

examples:
  python -m mmssprl pretrain photos/ --backbone resnet18 --epochs 100
  python -m mmssprl pretrain photos/ --budget 2h --weights supervised
  python -m mmssprl pretrain photos/ --probe labelled/ --work-dir work_dirs/photos
  python -m mmssprl pretrain photos/ --work-dir work_dirs/photos --resume

Ctrl-C, SIGTERM, SIGUSR1, SIGXCPU and a closed terminal stop it after the step under way: it
saves, prints the command that goes on with it, and ends with exit code 75. The second one ends
it at once.
"""


def _add_pretrain(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    images = "folder of images or of .tar files, searched recursively, or one .tar file"
    work_dir = "folder of the run (default: work_dirs/pretrain_<IMAGES>, or -2, -3 ... behind it "
    work_dir += "where a run on another folder of that name has it)"
    no_probe = "do not, whatever IMAGES holds"
    add("images", metavar="IMAGES", help=images)
    add("--work-dir", help=work_dir)
    add_options(parser, PretrainOptions, cfg_options={"nargs": "+", "action": ValuesAction})
    add("--no-probe", dest="probe", action="store_false", default=None, help=no_probe)


def _pretrain(args: argparse.Namespace) -> int:
    with quiet_console(verbose=args.verbose):
        from ..pixels import Pixels
        from ..pretraining.start import pretrain
        from ..weights import config_beside

        options = {each.name: getattr(args, each.name) for each in fields(PretrainOptions)}
        weights = pretrain(args.images, args.work_dir, **options, log=say)
        if args.dry_run:
            print("dry run: nothing was written.")
            return 0
        if weights is None:
            print("not started; nothing was written.")
            return 1
        lead = "next"
        pixels = Pixels.of_config(config_beside(str(weights)))  # of a resumed run, too
        if pixels is None or pixels.channels == 3:  # finetune reads RGB
            print(f"next: {command_line('finetune', weights, 'DATA', '--task', 'classify')}")
            lead = "  or"
        print(f"{lead}: {command_line('probe', weights, 'DATA')}  (DATA: your labelled images)")
        return 0


_TRAIN = """\
Train a model from a config file.

Pre-training, transfer and baselines alike; what tools/train.py of a checkout does. One
process; for several there are tools/dist_train.sh and tools/slurm_train.sh.

examples:
  python -m mmssprl train configs/ssprl/ssprl_resnet18_scenes.py
  python -m mmssprl train CONFIG --work-dir work_dirs/a --cfg-options train_dataloader.batch_size=32
  python -m mmssprl train configs/benchmarks/detection/CONFIG --weights BACKBONE.pth
"""


def _add_train(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    work_dir = "folder of the run; default: the config's, or work_dirs/<config name>"
    weights = "backbone weights to start from, for pre-training and configs of configs/benchmarks: "
    weights += "a file, random, or supervised (torchvision's, trained on ImageNet); if a file does "
    weights += "not fit the backbone of a benchmark, that of the config beside the file is taken"
    resume = "go on from CHECKPOINT, or from the newest one in the work dir"
    overwrite = "start anew in a work dir that holds another run; deletes its checkpoints"
    amp = "mixed precision, in bfloat16 unless optim_wrapper.dtype says otherwise"
    compile_ = "pre-training: run the backbone, and on a GPU the augmentation, through "
    compile_ += "torch.compile; the first steps take minutes"
    add("config", help="config file; configs/... finds a shipped one anywhere")
    add("--work-dir", help=work_dir)
    add("--weights", help=weights)
    add("--resume", nargs="?", const="auto", metavar="CHECKPOINT", help=resume)
    add("--overwrite", action="store_true", help=overwrite)
    add("--amp", action="store_true", help=amp)
    add("--compile", action="store_true", help=compile_)
    add("--tensorboard", action="store_true", help="log to TensorBoard as well")
    add("--wandb", action="store_true", help="log to Weights & Biases as well")
    told = ", for example optim_wrapper.optimizer.lr=0.3; a key that no run uses is refused"
    add_run_options(parser, told=told)


def train(*, overwrite: bool, **options: Any) -> None:
    """Train as the options say."""
    from ..engine.launch import prepare_train_config, run
    from ..saving.work_dir import finished_line, finished_weights
    from ..system.processes import command_of_process, to_go_on

    cfg = prepare_train_config(overwrite=overwrite, **options)
    weights = finished_weights(cfg)
    if weights is None:
        run(cfg, "train", overwrite=overwrite, go_on=to_go_on(command_of_process()))
    elif is_first_process():
        print(finished_line(cfg, weights))


def _train(args: argparse.Namespace) -> int:
    with quiet_console(verbose=args.verbose):
        train(**run_options(args))
    return 0


_TEST = """\
Test a checkpoint with the test set and metrics of a config file.

What tools/test.py of a checkout does. One process; for several there are
tools/dist_test.sh and tools/slurm_test.sh.

examples:
  python -m mmssprl test CONFIG work_dirs/a/epoch_100.pth
"""


def _add_test(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    config = "config file with a test_dataloader; configs/... finds a shipped one anywhere"
    checkpoint = "weights to test: a file, a URL, or the folder of a run for its newest ones"
    work_dir = "folder of the logs; default: the config's, or work_dirs/<config name>"
    add("config", help=config)
    add("checkpoint", help=checkpoint)
    add("--work-dir", help=work_dir)
    add("--out", metavar="JSON", help="write the metrics to this file, too")
    add("--overwrite", action="store_true", help="replace an existing JSON")
    add_run_options(parser, told=", for example test_dataloader.batch_size=1")


def test(*, out: str | None, overwrite: bool, **options: Any) -> None:
    """Test as the options say."""
    if out:
        prepare_output(out, overwrite=overwrite)
    from ..engine.launch import prepare_test_config, run

    run(prepare_test_config(**options), "test", out=out)


def _test(args: argparse.Namespace) -> int:
    with quiet_console(verbose=args.verbose):
        test(**run_options(args))
    return 0


_PROFILE = """\
Show where the time of a pre-training step goes, and whether the loader keeps up.

Run some training steps from random weights and print the time of every part:
loading (CPU time of one core), copy, augmentation, backbone, heads, Sinkhorn,
optimizer, communication; what to do about it, and a forecast of the whole training.
No work dir, no checkpoint: nothing is written but --out.

examples:
  python -m mmssprl profile configs/ssprl/ssprl_resnet18_scenes.py --data photos/
  python -m mmssprl profile CONFIG --cfg-options train_dataloader.num_workers=16 --out profile.json
With several GPUs: torchrun --nproc_per_node 2 -m mmssprl profile CONFIG --launcher pytorch
"""


def _add_profile(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    batch_size = "images per step and process (default: the config's; on a CPU 2)"
    launcher = "what started the processes; none: a single process"
    add("config", metavar="CONFIG", help="pre-training config")
    add("--data", metavar="DIR", help="images (default: the config's data_root)")
    add("--steps", type=int, default=30, metavar="N", help="steps to measure (default: 30)")
    add("--batch-size", type=int, metavar="N", help=batch_size)
    add("--amp", action="store_true", help="mixed precision, as in training")
    add("--compile", action="store_true", help="compile backbone and augmentation, as in training")
    add_cfg_options(parser)
    add("--out", metavar="FILE", help="write the numbers, .json or .csv")
    add("--overwrite", action="store_true", help="replace an existing file")
    add("--launcher", choices=["none", "pytorch"], default="none", help=launcher)


def _profile(args: argparse.Namespace) -> int:
    is_main = args.launcher == "none" or is_first_process()
    if args.out and Path(args.out).suffix not in (".json", ".csv"):
        raise UserValueError(f"--out must end in .json or .csv, but got {args.out!r}.")
    if args.out and is_main:
        prepare_output(args.out, overwrite=args.overwrite)

    from ..timing import format_csv, format_profile, profile_training
    from ..timing.forecast import forecast_profile

    names = ("data", "steps", "batch_size", "amp", "compile", "cfg_options", "launcher")
    options = {name: getattr(args, name) for name in names}
    profile = profile_training(args.config, **options, log=say if is_main else lambda line: None)
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


COMMANDS = {
    "pretrain": Command(_PRETRAIN, _add_pretrain, _pretrain),
    "train": Command(_TRAIN, _add_train, _train),
    "test": Command(_TEST, _add_test, _test),
    "profile": Command(_PROFILE, _add_profile, _profile),
}
