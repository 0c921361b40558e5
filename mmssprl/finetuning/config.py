"""From labels and weights to a recipe and a config of mmpretrain, mmdet or mmseg."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config

from ..config.hooks import is_named
from ..config.keys import used_keys
from ..config.run_checks import missing_package
from ..config.shipped import shipped
from ..console.options import check_ranges
from ..console.quiet import quiet
from ..console.wording import counted
from ..datasets.labels import LabelledData
from ..engine.adapted_backbone import adapt_backbone, fit_backbone, plain_resnet
from ..engine.initial_weights import apply_weights
from ..errors import UserRuntimeError, UserValueError
from ..models.module_backbone import refuse_reused
from ..pixels import Normalisation
from ..pyramid import check_px
from ..runs.devices import choose_batch, choose_epochs, reading_processes
from ..weights import (
    RANDOM,
    Source,
    build_backbone,
    find_normalisation,
    take_normalisation,
    whole_path,
)
from ..weights.checkpoint_file import read_state
from ..weights.pooled import GIVE_SIZE, accepted_px, refusal
from .options import FinetuneOptions
from .tasks import TASKS, Task

LEAST_CHOSEN_BATCH = 4
"""Smallest chosen batch; BatchNorm's statistics of fewer images mislead small networks."""


def set_numbers(
    cfg: Config, weights: str, asked: FinetuneOptions, num_images: int, num_gpus: int
) -> tuple[int, dict[str, tuple[str, str]]]:
    """Set the numbers in the base config of a task; return the image size and the recipe's rows."""
    usual = cfg.usual
    num_devices = max(1, num_gpus)
    image_px, why_px = _asked_or(
        asked.image_px, usual.image_px, "on a GPU" if num_gpus else "on a CPU"
    )
    batch, why_batch = choose_batch(
        num_images, num_devices, usual.batch_size, asked.batch_size, least=LEAST_CHOSEN_BATCH
    )
    usual_epochs = choose_epochs(usual.images_seen, num_images, usual.epochs)
    why = "{:,} images seen, from {} to {} epochs".format(usual.images_seen, *usual.epochs)
    epochs, why_epochs = _asked_or(asked.epochs, usual_epochs, why)
    steps_per_epoch = math.ceil(num_images / num_devices) // batch
    num_steps = epochs * steps_per_epoch
    rows = {
        "images": (f"{image_px} px", why_px),
        "batch": (f"{counted(batch, 'image')} x {counted(num_devices, 'device')}", why_batch),
        "epochs": (f"{epochs}, {counted(num_steps, 'update')}", why_epochs),
        "optimizer": _set_optimizer(cfg, weights, asked, num_steps),
        "backbone": ("trained", "--freeze keeps its weights"),
    }
    if asked.freeze:
        rows["backbone"] = ("frozen", "as asked")

    val_interval = max(1, epochs // 5)  # about five validations, the last one after the last epoch
    cfg.train_cfg.update(max_epochs=epochs, val_interval=val_interval)
    cfg.default_hooks.checkpoint.update(interval=val_interval, max_keep_ckpts=1, rule="greater")
    cfg.train_dataloader.batch_size = batch
    for split in ("train", "val", "test"):
        cfg[f"{split}_dataloader"].num_workers = reading_processes(num_devices)
        cfg[f"{split}_dataloader"].pin_memory = num_gpus > 0

    line_steps = min(200, steps_per_epoch)  # between lines of the log
    cfg.default_hooks.logger.update(interval=line_steps, ignore_last=False)
    cfg.log_processor = {"type": "mmssprl.FinetuneLogProcessor", "window_size": line_steps}
    return image_px, rows


def _set_optimizer(
    cfg: Config, weights: str, asked: FinetuneOptions, num_steps: int
) -> tuple[str, str]:
    """Set the learning rates and their schedule; return the recipe's row."""
    usual_lr = (cfg.base_lr, "of pre-trained weights")
    if asked.freeze:
        usual_lr = (cfg.frozen_lr, "of heads on a frozen backbone")
    elif Source.of(weights).is_random:
        usual_lr = (cfg.random_lr, "from random weights")
    lr, why = _asked_or(asked.lr, *usual_lr)
    cfg.optim_wrapper.optimizer.lr = lr
    of_head = ""
    if "head_lr" in cfg:
        head_lr = max(lr, cfg.head_lr)
        # Longer keys win: backbones have layers such as ``conv_head``.
        keys = {"head.": {"lr_mult": head_lr / lr}, "backbone.": {"lr_mult": 1.0}}
        cfg.optim_wrapper.paramwise_cfg = {"custom_keys": keys, "bypass_duplicate": True}
        of_head = f" (head {head_lr:.3g})"

    warmup = min(cfg.most_warmup_iters, int(cfg.warmup_share * num_steps))
    if warmup < 2:  # after one step mmengine's LinearLR is below the full rate
        warmup = 0
    rise = {"type": "LinearLR", "by_epoch": False, "start_factor": 0.01, "end": warmup}
    cosine = {"type": "CosineAnnealingLR", "by_epoch": False, "begin": warmup, "end": num_steps}
    cosine["T_max"] = num_steps - warmup
    cfg.param_scheduler = [rise, cosine] if warmup else [cosine]
    rises = f" after {counted(warmup, 'step')} of warm-up" if warmup else ""
    return f"AdamW, lr {lr:.3g}{of_head}, cosine{rises}", why


def _asked_or(asked: Any, chosen: Any, why: str) -> tuple[Any, str]:
    return (chosen, why) if asked is None else (asked, "as asked")


def check_options(weights: str, task: str, asked: FinetuneOptions) -> None:
    """Raise ValueError for weights, task or options that cannot be used; reads no labels."""
    if task not in TASKS:
        raise UserValueError(f"task must be one of {', '.join(TASKS)}, but got {task!r}.")
    require_package(TASKS[task].scope, f"task {task}")
    check_ranges(asked)
    if asked.image_px is not None:
        check_px("image_px", asked.image_px)
    source = Source.of(weights)
    if source.is_own:
        raise UserValueError(
            f"weights {weights!r} are for pretrain --backbone; give package.module:function, which "
            "returns the network with its weights."
        )
    if source.is_file:
        read_state(weights)  # refuses a file that has none


def require_package(scope: str, who: str) -> None:
    """Raise RuntimeError if the package of a registry scope is not installed."""
    if missing := missing_package(scope):
        raise UserRuntimeError(
            f"{who} needs {missing}, but it is not installed; "
            "pip install -r requirements/transfer.txt."
        )


def finetune_config(
    weights: str,
    data: LabelledData,
    task_name: str,
    asked: FinetuneOptions,
    backbone_from: str | None = None,
) -> tuple[Config, dict[str, tuple[str, str]]]:
    """Set weights, classes and numbers in the base config of a task; return the recipe as well.

    Label files are set later by ``set_label_files``. The file ``backbone_from`` gives the backbone,
    else the file ``weights``, else it is a ResNet.
    """
    num_gpus = torch.cuda.device_count()
    kind = TASKS[task_name]
    cfg = Config.fromfile(shipped(kind.base_config(on_gpu=num_gpus > 0)))
    image_px, rows = set_numbers(cfg, weights, asked, len(data.train), num_gpus)
    cfg.image_px = image_px  # for the features of a network of one size
    pixels = _set_backbone(cfg, weights, backbone_from, depth=50 if num_gpus else 18)
    if not pixels.equals(Normalisation()):
        rows["pixels"] = (str(pixels), f"of {pixels.source}")
    if frozen := _frozen_parts(cfg):
        rows["frozen"] = (frozen, "requires_grad=False in the network of the function")

    if kind.scope == "mmssprl":  # the others take only ResNets
        image_px = taken_px(cfg, image_px, asked, rows)
    task = kind(data.classes, **kind.facts_of(data))
    task.configure(cfg, image_px)
    cfg.log_processor.update(task.val_score._asdict())
    cfg.default_hooks.checkpoint.save_best = task.val_score.key
    if asked.freeze:
        _freeze_backbone(cfg, kind)
    cfg.weights = whole_path(weights)
    cfg.randomness.seed = asked.seed or 0
    for knob in cfg.keys() - used_keys(cfg):  # helpers of the base config
        cfg.pop(knob)
    cfg.finetuning = {
        "task": task_name,
        "classes": data.classes,
        "facts": task.facts,
        "data_root": str(data.root),
        "num_images": {"train": len(data.train), "val": len(data.val)},
        "of_class": {"train": data.count(data.train), "val": data.count(data.val)},
    }
    if task_name == "detect" and not any(image.has_scored for image in data.val):
        cfg.val_dataloader = cfg.val_cfg = cfg.val_evaluator = None
        for key in ("save_best", "rule"):
            cfg.default_hooks.checkpoint.pop(key)

    with quiet():
        apply_weights(cfg.copy(), None, adapt=False)  # refuses what the training would
    return cfg, rows


def _set_backbone(
    cfg: Config, weights: str, backbone_from: str | None, *, depth: int
) -> Normalisation:
    """Set the backbone and the normalisation of its weights in a base config; return the latter."""
    source = Source.of(weights)
    network = backbone_from or (None if source.word else weights)
    with quiet():
        adapt_backbone(cfg, {"type": "ResNet", "depth": depth})
        if network is not None:
            fit_backbone(cfg, network)
        normalised_for = (network or RANDOM) if source.is_random else weights
        pixels = find_normalisation(normalised_for, cfg.model.backbone)
        take_normalisation(cfg, pixels)
    return pixels


def taken_px(
    cfg: Config, image_px: int, asked: FinetuneOptions, rows: dict[str, tuple[str, str]]
) -> int:
    """Return the image size; if none was asked for, one that the network takes, with its row.

    Raises:
        ValueError: The network does not take the size.
    """
    network = build_backbone(cfg)
    network.eval()  # not chained: mmpretrain's train() returns None
    px = accepted_px(network, image_px)
    if px != image_px and asked.image_px:
        reason = refusal(network, torch.zeros(2, 3, image_px, image_px))
        raise UserValueError(
            f"the network must take images of {image_px} px, but raises {reason}; {GIVE_SIZE}, "
            f"such as {px}."
        )
    if px != image_px:
        rows["images"] = (f"{px} px", f"the network does not take {image_px} px")
    return px


def _frozen_parts(cfg: Config) -> str:
    """Return how many parameters the function of a network has frozen; '' if it has none."""
    if not is_named(cfg.model.backbone, "ModuleBackbone"):
        return ""
    network = build_backbone(cfg)
    refuse_reused(network)
    learning = [each.requires_grad for each in network.parameters()]
    num = learning.count(False)
    return f"{num} of {counted(len(learning), 'parameter')}" if num else ""


def _freeze_backbone(cfg: Config, kind: type[Task]) -> None:
    """Keep the backbone, with BatchNorm's statistics."""
    if kind.scope == "mmssprl":
        cfg.model.frozen_backbone = True
        return
    stages = cfg.model.backbone.get("num_stages", 4)
    cfg.model.backbone.update(frozen_stages=stages, norm_eval=True)


def backbone_config(cfg: Config) -> Config:
    """Return the network of a config of ``finetune_config``, and the numbers of its images."""
    backbone = cfg.model.backbone
    if cfg.default_scope != "mmssprl":  # one that ``adapt_backbone`` has set
        backbone = plain_resnet(backbone)
    numbers = Normalisation.of_config(cfg).numbers
    return Config({"model": {"backbone": backbone, "data_preprocessor": numbers}})


def task_of(cfg: Config) -> Task:
    """Return the task of a config of ``finetune_config``; ValueError for another config."""
    if not (about := cfg.get("finetuning")):
        raise UserValueError(
            f"the config must be one of `finetune`, but {cfg.filename} is not; give the work dir "
            "of a fine-tuning, or a checkpoint in it."
        )
    return TASKS[about.task](about.classes, **about.facts)


def set_label_files(cfg: Config, folder: Path) -> None:
    """Set the label files that ``write_labels`` wrote into a folder."""
    root = cfg.finetuning.data_root
    for split, file in (("train", "train.json"), ("val", "val.json"), ("test", "val.json")):
        path = str((folder / file).resolve())
        loader = cfg.get(f"{split}_dataloader")
        evaluator = cfg.get(f"{split}_evaluator")
        if loader is None:  # no object of val counts
            continue
        prefix = loader.dataset.get("data_prefix")
        is_dict = isinstance(prefix, Mapping)
        loader.dataset.data_prefix = dict.fromkeys(prefix, root) if is_dict else root
        loader.dataset.ann_file = path
        if evaluator and "ann_file" in evaluator:
            evaluator.ann_file = path
