"""What pre-training needs from the runner: epochs for data and model, batches on the device."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from mmengine.hooks import Hook
from mmengine.runner import EpochBasedTrainLoop, Runner
from torch import Tensor
from torch.utils._pytree import tree_leaves

from ...config.pretrain_checks import check_pretraining
from ...datasets import UnlabeledImages
from ...errors import UserValueError
from ...models import PretrainingModel
from ...models.unwrap import unwrap
from ...registry import HOOKS


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


class Prefetcher:
    """A data loader whose batches pass through ``copy`` on their way; the rest is the loader's.

    A batch is fetched and copied when it is asked for, not before: the host runs ahead of the
    device, so the device is still busy with the last step then. Nothing is held back, so that
    an error of the loader comes up at its own batch and a loop that stops early loses none.
    """

    def __init__(self, loader: Any, copy: Callable[[Any], Any]) -> None:
        self.loader = loader
        self._copy = copy

    def __iter__(self) -> Iterator[Any]:
        for batch in self.loader:
            yield self._copy(batch)

    def __len__(self) -> int:
        return len(self.loader)

    def __getattr__(self, name: str) -> Any:
        if name == "loader":  # not there yet, as in a copy of this object
            raise AttributeError(name)
        return getattr(self.loader, name)


class SideStreamCopy:
    """Runs a copy to a CUDA device beside the kernels that are queued on the current stream.

    Only the kernels queued from then on wait for it, never the host; that needs pinned memory, and
    a ``move`` that copies with ``non_blocking=True``.
    """

    def __init__(self, move: Callable[[Any], Any], device: torch.device) -> None:
        self._move = move
        self._stream = torch.cuda.Stream(device)

    def __call__(self, batch: Any) -> Any:
        """Start the copy and make what follows on the current stream wait for it."""
        with torch.cuda.stream(self._stream):
            moved = self._move(batch)
        current = torch.cuda.current_stream(self._stream.device)
        current.wait_stream(self._stream)
        for leaf in tree_leaves(moved):
            if isinstance(leaf, Tensor) and leaf.is_cuda:
                # Else the memory could be given to a later copy while a step still reads it.
                leaf.record_stream(current)
        return moved
