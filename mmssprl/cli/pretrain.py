"""Pre-train a backbone on a folder of images with a recipe chosen for them."""

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..console import quiet_console
from ..errors import UserFileExistsError, UserFileNotFoundError, UserValueError

if TYPE_CHECKING:
    from mmengine.config import Config

    from ..pretraining.usable_images import UsableImages
    from ..recipe import Recipe

_EXAMPLE = """\
examples:
  python -m mmssprl pretrain photos/ --backbone resnet18 --epochs 100
  python -m mmssprl pretrain photos/ --work-dir work_dirs/photos
  python -m mmssprl pretrain photos/ --work-dir work_dirs/photos --resume
"""

_BASE_CONFIGS = {
    "paper": "configs/ssprl/ssprl_resnet50_2xb64-coslr-200e_coco.py",
    "released": "configs/ssprl/ssprl-released_resnet50_2xb64-coslr-200e_coco.py",
}
_MAX_LOG_INTERVAL = 50
_RECIPE_OPTIONS = ("epochs", "batch_size", "accumulate", "backbone", "variant", "seed")
"""None unless given, so that --resume can refuse them."""


def add_parser(subparsers: "argparse._SubParsersAction") -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "pretrain",
        help="pre-train on your own images",
        description="Pre-train a backbone on all images below a folder. Sizes, batch, learning "
        "rate, prototypes, queues and freezing are chosen from the number of images and devices; "
        "the recipe is printed and written as a config into the work dir. Some timed steps then "
        "tell how long the run will take.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "dir",
        metavar="DIR",
        help="folder of images or of .tar files, searched recursively, or one .tar file",
    )
    parser.add_argument("--work-dir", help="folder of the run; default: work_dirs/pretrain_<DIR>")
    parser.add_argument("--epochs", type=int, help="passes over the images; default: chosen")
    parser.add_argument(
        "--batch-size", type=int, help="images per device and backbone pass; default: chosen"
    )
    parser.add_argument(
        "--accumulate",
        type=int,
        help="multiply the batch by this without its memory: the backbone sees a step's images in "
        "so many parts; LARC's lr follows the images of a step, AdamW's only up to 64 (default: 1)",
    )
    parser.add_argument(
        "--backbone",
        choices=["resnet18", "resnet50", "vit-small", "swin-tiny"],
        help="what to pre-train (default: resnet50)",
    )
    parser.add_argument(
        "--variant",
        choices=["paper", "released"],
        help="form of the method: of the paper, or of its released code (default: paper)",
    )
    parser.add_argument("--seed", type=int, help="of all randomness (default: 0)")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with the run in the work dir, with the config that it holds",
    )
    parser.add_argument(
        "--yes", action="store_true", help="start even if it will take more than 12 h on a CPU"
    )
    parser.add_argument(
        "--verbose",
        action="store_true",
        help="show what otherwise only the log file gets: environment, config, hooks, all warnings",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Choose the recipe, forecast the run, write the config, train, and say what comes next."""
    with quiet_console(verbose=args.verbose):
        return _run(args)


def _run(args: argparse.Namespace) -> int:
    work_dir = Path(args.work_dir or f"work_dirs/pretrain_{Path(args.dir).resolve().name}")
    config = work_dir / f"ssprl_{args.backbone or 'resnet50'}.py"
    if args.resume:
        config = _config_of_run(args, work_dir)
    else:
        _refuse_used(work_dir)
        cfg, recipe, images = _make_config(args)
        print(describe(recipe, args.dir))
        for text in images.warnings:
            print(f"warning: {text}")
        if not _may_start(cfg, recipe, args.yes):
            print("not started; nothing was written.")
            return 1
        work_dir.mkdir(parents=True, exist_ok=True)
        cfg.dump(config)
        print(f"config: {config}")
    status = _train(config, work_dir, args.resume, args.verbose)
    if status:
        return status
    weights = work_dir / f"{config.stem}_backbone.pth"
    print(f"backbone weights: {weights}")
    print(f"next: python -m mmssprl probe {weights} DATA  (DATA in COCO or VOC layout)")
    return 0


def describe(recipe: "Recipe", source: str) -> str:
    """Return the recipe as lines of choice and reason, warnings last."""
    levels = recipe.layout["levels"]
    views = [f"2 x {recipe.layout['image_px']} px"]
    if recipe.layout["num_small"]:
        views.append(f"{recipe.layout['num_small']} x {recipe.layout['small_px']} px")
    views += [f"2 x {level['grid'] ** 2} x {level['patch_px']} px" for level in levels]
    optimizer = recipe.optimizer
    batch = f"{recipe.batch_size} images x {recipe.num_devices} device(s)"
    if recipe.num_chunks > 1:
        batch += f", in {recipe.num_chunks} parts"
    queues = [recipe.queue_length, *recipe.patch_queue_length]
    lines = {
        "views": ", ".join(views),
        "batch": batch,
        "epochs": f"{recipe.epochs}, {recipe.epochs * recipe.steps_per_epoch} updates",
        "optimizer": f"{optimizer['type']}, lr {optimizer['lr']:.3g}, cosine",
        "targets": f"epsilon {recipe.epsilon}, colour jitter {recipe.jitter}",
        "prototypes": f"{recipe.num_prototypes} / {recipe.num_patch_prototypes}",
        "queues": f"{' / '.join(map(str, queues))} rows from epoch {recipe.queue_start_epoch}",
        "freezing": f"{recipe.freeze_iters} steps",
    }
    width = max(len(text) for text in lines.values())
    title = f"SS-PRL ({recipe.variant} form), {recipe.backbone}, images of {source}"
    rows = [f"  {name:<11}{text:<{width}}  {recipe.reasons[name]}" for name, text in lines.items()]
    return "\n".join([title, *rows, *(f"warning: {text}" for text in recipe.warnings)])


def _make_config(args: argparse.Namespace) -> "tuple[Config, Recipe, UsableImages]":
    import torch
    from mmengine.config import Config

    from ..datasets import UnlabeledImages
    from ..pretraining.usable_images import find_usable_images
    from ..recipe import BACKBONES, choose_recipe
    from ..shipped import shipped

    seed = args.seed or 0
    if not 0 <= seed < 2**32:
        raise UserValueError(f"seed must be from 0 to {2**32 - 1}, but got {seed}.")
    dataset = UnlabeledImages(data_root=args.dir)
    images = find_usable_images(dataset, args.dir)
    num_gpus = torch.cuda.device_count()
    variant = args.variant or "paper"
    cfg = Config.fromfile(shipped(_BASE_CONFIGS[variant]))
    recipe = choose_recipe(
        len(dataset),
        images.short_side_px,
        cfg.model.layout.to_dict(),
        num_devices=max(1, num_gpus),
        on_gpu=num_gpus > 0,
        backbone=args.backbone or "resnet50",
        variant=variant,
        epochs=args.epochs,
        batch_size=args.batch_size,
        accumulation=1 if args.accumulate is None else args.accumulate,
    )
    backbone, channels = BACKBONES[recipe.backbone]
    if backbone["type"] == "ResNet":
        # LARC does not scale parameters of zero norm, see the base config; AdamW gains by them.
        backbone = {**backbone, "zero_init_residual": recipe.optimizer["type"] != "LARC"}
    base_lr = recipe.optimizer["lr"]
    workers = min(8, max(1, (os.cpu_count() or 1) // recipe.num_devices - 1))
    cfg.layout = recipe.layout
    cfg.model.layout = recipe.layout
    cfg.model.backbone = backbone
    cfg.merge_from_dict(
        {
            "model.neck.in_channels": channels,
            "model.data_preprocessor.brightness": recipe.jitter,
            "model.data_preprocessor.contrast": recipe.jitter,
            "model.data_preprocessor.saturation": recipe.jitter,
            "model.data_preprocessor.hue": recipe.jitter / 4,
            "model.num_chunks": recipe.num_chunks,
            "model.head.epsilon": recipe.epsilon,
            "model.head.num_prototypes": recipe.num_prototypes,
            "model.head.num_patch_prototypes": recipe.num_patch_prototypes,
            "model.head.queue_length": recipe.queue_length,
            "model.head.patch_queue_length": recipe.patch_queue_length,
            "model.head.queue_start_epoch": recipe.queue_start_epoch,
            "model.head.freeze_epochs": 0,
            "model.head.freeze_iters": recipe.freeze_iters,
            "train_dataloader.batch_size": recipe.batch_size,
            "train_dataloader.num_workers": workers,
            "train_dataloader.pin_memory": num_gpus > 0,
            "train_dataloader.dataset.data_root": str(Path(args.dir).resolve()),
            "train_dataloader.dataset.pipeline.0.layout": recipe.layout,
            "train_cfg.max_epochs": recipe.epochs,
            "param_scheduler.0.T_max": recipe.epochs,
            "param_scheduler.0.eta_min": base_lr / 1000,
            "auto_scale_lr.base_batch_size": recipe.batch_size * recipe.num_devices,
            "default_hooks.logger.interval": _log_interval(recipe, num_gpus > 0),
            "default_hooks.checkpoint.interval": max(1, recipe.epochs // 20),
            "randomness.seed": seed,
        }
    )
    cfg.optim_wrapper.optimizer = recipe.optimizer
    for knob in ("max_epochs", "batch_size", "base_lr", "data_root", "num_gpus"):
        cfg.pop(knob)  # copies of what was just set
    return cfg, recipe, images


def _may_start(cfg: "Config", recipe: "Recipe", yes: bool) -> bool:
    """Forecast the run, say it in one line, and ask or refuse if it is too long for a CPU."""
    import torch

    from ..pretraining.forecast import make_forecast, may_start
    from ..pretraining.pace import measure_pace

    print("timing some steps ...", flush=True)
    pace = measure_pace(cfg, amp=torch.cuda.is_available(), num_devices=recipe.num_devices)
    forecast = make_forecast(
        pace,
        epochs=recipe.epochs,
        steps_per_epoch=recipe.steps_per_epoch,
        checkpoint=cfg.default_hooks.checkpoint,
    )
    print(forecast.line, flush=True)
    return may_start(forecast, yes=yes)


def _log_interval(recipe: "Recipe", on_gpu: bool) -> int:
    """Steps between two lines of progress; a step of a large network takes long on a CPU."""
    return min(_MAX_LOG_INTERVAL, recipe.steps_per_epoch) if on_gpu else 1


def _config_of_run(args: argparse.Namespace, work_dir: Path) -> Path:
    from mmengine.config import Config

    configs = sorted(work_dir.glob("ssprl_*.py"))
    if len(configs) != 1:
        raise UserFileNotFoundError(
            f"--resume needs the config of one run in {work_dir}, but found {len(configs)}; "
            "give the run's --work-dir, or leave --resume out to start."
        )
    root = Config.fromfile(configs[0]).train_dataloader.dataset.data_root
    if Path(root) != Path(args.dir).resolve():
        raise UserValueError(
            f"--resume goes on with the run's own images, {root}, but DIR is {args.dir}; "
            "give that folder, or start a new run with another --work-dir."
        )
    if any(getattr(args, name) is not None for name in _RECIPE_OPTIONS):
        flags = ", ".join("--" + name.replace("_", "-") for name in _RECIPE_OPTIONS)
        raise UserValueError(
            f"--resume takes the recipe from {configs[0]}; leave {flags} out, or start a new run."
        )
    return configs[0]


def _refuse_used(work_dir: Path) -> None:
    if work_dir.is_dir() and any(work_dir.iterdir()):
        raise UserFileExistsError(
            f"the work dir must be new or empty, but {work_dir} holds files; go on with its run "
            "by --resume, or give another --work-dir."
        )


def _train(config: Path, work_dir: Path, resume: bool, verbose: bool) -> int:
    import torch

    from ..shipped import shipped

    num_gpus = torch.cuda.device_count()
    if num_gpus > 1:
        command = [sys.executable, "-m", "torch.distributed.run", f"--nproc_per_node={num_gpus}"]
        command += ["--standalone", str(shipped("tools/train.py")), str(config)]
        command += ["--work-dir", str(work_dir), "--launcher", "pytorch", "--amp"]
        command += ["--resume"] * resume + ["--verbose"] * verbose
        return subprocess.run(command).returncode
    from ..engine.launch import prepare_train_config, run

    cfg = prepare_train_config(
        config, work_dir=work_dir, resume="auto" if resume else None, amp=num_gpus > 0
    )
    run(cfg, "train")
    return 0
