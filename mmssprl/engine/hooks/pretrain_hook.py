"""What pre-training needs from the runner: epochs for data and model, batches on the device."""

from pathlib import Path

from mmengine.hooks import Hook
from mmengine.runner import EpochBasedTrainLoop, Runner

from ...config.pretrain_checks import check_pretraining
from ...datasets import UnlabeledImages
from ...errors import UserValueError
from ...models import PretrainingModel
from ...models.unwrap import unwrap
from ...registry import HOOKS
from ..device_prefetcher import Prefetcher, SideStreamCopy


@HOOKS.register_module()
class PretrainHook(Hook):
    """Tell the model how long the training is, and the data set the epoch and where to report.

    The crops of an image depend on (seed, epoch, image) alone, so the data set has to know the
    epoch. Unreadable images are listed in ``work_dir/bad_images.txt``. On a CUDA device the
    batches are copied beside the step that runs.
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
        model.on_epoch_length(len(loader))
        model.on_training_length(runner.max_iters)
        loader.dataset.record_bad_images(Path(runner.work_dir) / "bad_images.txt")
        device = next(model.parameters()).device
        if device.type == "cuda":
            copy = SideStreamCopy(model.data_preprocessor.cast_data, device)
            runner.train_loop.dataloader = Prefetcher(loader, copy)

    def after_train(self, runner: Runner) -> None:
        """Give the runner its own loader back."""
        loader = runner.train_dataloader
        if isinstance(loader, Prefetcher):
            runner.train_loop.dataloader = loader.loader

    def before_train_epoch(self, runner: Runner) -> None:
        """Give this epoch its own crops."""
        runner.train_dataloader.dataset.set_epoch(runner.epoch, runner.seed)
