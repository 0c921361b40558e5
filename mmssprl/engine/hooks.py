"""Hooks of pre-training and transfer; they call methods of model and data.

None holds state of the model. What a hook keeps between steps, such as losses that no log has read
yet, is gone with the process and is never needed to resume. Those of the log are beside its lines,
in ``log_processor``.
"""

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


@HOOKS.register_module()
class PretrainHook(Hook):
    """Tell the model how long the training is, the data set its views, the epoch, where to report.

    The crops of an image depend on (seed, epoch, image) alone, so the data set has to know the
    epoch. Unreadable images are listed in ``work_dir/bad_images.txt``.
    """

    def before_train(self, runner: Runner) -> None:
        """Tell model and data set about the run.

        Raises:
            ValueError: A loop without epochs, another data set than ``UnlabeledImages``, another
                model than a ``PretrainingModel``, or as ``check_pretraining`` and the model's
                ``check_training``.
        """
        check_pretraining(runner.cfg)
        loader, model = runner.train_dataloader, unwrap(runner.model)
        for part, kind, needed in (
            (runner.train_loop, EpochBasedTrainLoop, "train_cfg.type='EpochBasedTrainLoop'"),
            (loader.dataset, UnlabeledImages, "train_dataloader.dataset.type='UnlabeledImages'"),
            (model, PretrainingModel, "a model that is a mmssprl.models.PretrainingModel"),
        ):
            if not isinstance(part, kind):
                raise UserValueError(
                    f"pre-training needs {needed}, but got {type(part).__name__}; set it, or leave "
                    "PretrainHook out."
                )
        if loader.batch_size is not None:  # unknown with a batch sampler of its own
            left = 0 if loader.drop_last else len(loader.sampler) % loader.batch_size
            model.check_training(len(loader.dataset), loader.batch_size, left or None)
        for transform in loader.dataset.pipeline.transforms:
            if isinstance(transform, PyramidCrop) and not transform.has_layout:
                transform.take_layout(model.layout)
        model.on_epoch_length(len(loader))
        model.on_training_length(runner.max_iters)
        listed = Path(runner.work_dir) / "bad_images.txt"
        if runner.iter == 0 and is_main_process():
            listed.unlink(missing_ok=True)  # of an earlier training here, perhaps of other images
        barrier()
        loader.dataset.record_bad_images(listed)

    def before_train_epoch(self, runner: Runner) -> None:
        """Give this epoch its own crops."""
        runner.train_dataloader.dataset.set_epoch(runner.epoch, runner.seed)


@HOOKS.register_module()
class ClipGradientsHook(Hook):
    """Scale down the gradient of each of ``modules`` on its own if its norm exceeds ``max_norm``.

    ``optim_wrapper.clip_grad`` takes one norm over all parameters: a head with a large gradient
    would then slow down its backbone. Parameters outside of ``modules`` are left alone. It runs
    right before the optimizer's own step, so that AmpOptimWrapper has unscaled the gradients.

    Args:
        modules: Attributes of the model, such as ``["backbone", "head"]``.
        max_norm: Largest Euclidean norm of a module's gradient, > 0.

    Raises:
        ValueError: ``max_norm`` out of range, or, when the training starts, a module that the
            model does not have.
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
                f"modules must be parts of the model, but {missing} are not; "
                f"its parts are {list(children)}."
            )
        groups = [list(children[name].parameters()) for name in self.modules]

        def clip(optimizer: torch.optim.Optimizer, *_: Any) -> None:
            for parameters in groups:
                clip_grad_norm_(parameters, self.max_norm)

        runner.optim_wrapper.optimizer.register_step_pre_hook(clip)
