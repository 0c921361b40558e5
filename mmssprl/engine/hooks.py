"""Hooks of pre-training and transfer. They hold no state that a resumed run needs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from mmengine.dist import barrier, is_main_process
from mmengine.hooks import Hook
from mmengine.runner import EpochBasedTrainLoop, Runner
from torch.nn.utils import clip_grad_norm_

from ..config.pretrain_checks import check_pretraining
from ..datasets import UnlabeledImages
from ..datasets.transforms import PyramidCrop
from ..errors import UserValueError
from ..models import PretrainingModel
from ..models.unwrap import unwrap
from ..registry import HOOKS
from .log_processor import PretrainLogProcessor


@HOOKS.register_module()
class PretrainHook(Hook):
    """Set up model and data set for a run: lengths, views, epoch, and ``bad_images.txt``."""

    def before_train(self, runner: Runner) -> None:
        """Check loop, data set and model, and set them up.

        Raises:
            ValueError: The loop has no epochs, the data set is not ``UnlabeledImages``, the model
                is not a ``PretrainingModel``, or as ``check_pretraining`` and ``check_training``.
        """
        check_pretraining(runner.cfg)
        if not isinstance(runner.log_processor, PretrainLogProcessor):
            runner.logger.warning(
                f"log_processor is a {type(runner.log_processor).__name__}: its log lacks what "
                "`report` and the warnings of troubles need; set "
                "log_processor=dict(type='PretrainLogProcessor')."
            )
        loader = runner.train_dataloader
        model = unwrap(runner.model)
        _require(runner.train_loop, EpochBasedTrainLoop, "train_cfg.type='EpochBasedTrainLoop'")
        _require(loader.dataset, UnlabeledImages, "train_dataloader.dataset.type='UnlabeledImages'")
        _require(model, PretrainingModel, "a model that is a mmssprl.models.PretrainingModel")

        if loader.batch_size is not None:  # None with a batch sampler
            left = 0 if loader.drop_last else len(loader.sampler) % loader.batch_size
            model.check_training(len(loader.dataset), loader.batch_size, left or None)
        for transform in loader.dataset.pipeline.transforms:
            if isinstance(transform, PyramidCrop) and not transform.has_layout:
                transform.take_layout(model.layout)
        model.on_epoch_length(len(loader))
        model.on_training_length(runner.max_iters)

        listed = Path(runner.work_dir) / "bad_images.txt"
        if runner.iter == 0 and is_main_process():
            listed.unlink(missing_ok=True)  # from an earlier run, perhaps on other images
        barrier()
        loader.dataset.record_bad_images(listed)

    def before_train_epoch(self, runner: Runner) -> None:
        """Draw new crops, which depend on (seed, epoch, image)."""
        runner.train_dataloader.dataset.set_epoch(runner.epoch, runner.seed)


def _require(part: Any, kind: type, needed: str) -> None:
    if not isinstance(part, kind):
        raise UserValueError(
            f"pre-training needs {needed}, but got {type(part).__name__}; set it, or leave "
            "PretrainHook out."
        )


@HOOKS.register_module()
class ClipGradientsHook(Hook):
    """Clip the gradient norm of each module in ``modules`` separately.

    ``optim_wrapper.clip_grad`` clips one norm over all parameters, so a head with large gradients
    would slow down the backbone. AmpOptimWrapper has unscaled the gradients before.

    Args:
        modules: Attributes of the model, such as ``["backbone", "head"]``.
        max_norm: Maximum L2 norm of a module's gradient, > 0.

    Raises:
        ValueError: ``max_norm`` is out of range; at the start, the model lacks a module.
    """

    def __init__(self, modules: Sequence[str], max_norm: float) -> None:
        if not max_norm > 0:
            raise UserValueError(
                f"max_norm must be > 0, but got {max_norm}; remove the hook to clip nothing."
            )
        self.modules = tuple(modules)
        self.max_norm = max_norm

    def before_train(self, runner: Runner) -> None:
        """Attach the clipping to the optimizer."""
        children = dict(unwrap(runner.model).named_children())
        missing = [name for name in self.modules if name not in children]
        if missing:
            raise UserValueError(
                f"ClipGradientsHook.modules must be parts of the model, but {missing} are not; "
                f"choose from {list(children)}."
            )
        groups = [list(children[name].parameters()) for name in self.modules]

        def clip(optimizer: torch.optim.Optimizer, *_: Any) -> None:
            for parameters in groups:
                clip_grad_norm_(parameters, self.max_norm)

        runner.optim_wrapper.optimizer.register_step_pre_hook(clip)
