"""Training loops that resume after any step, bit-equal to an uninterrupted run."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from mmengine.config import Config
from mmengine.device import get_device
from mmengine.dist import get_rank
from mmengine.runner import EpochBasedTrainLoop, IterBasedTrainLoop, Runner
from torch import nn

from ..errors import UserValueError
from ..models import is_pretraining
from ..registry import LOOPS, class_of
from .resumable_samplers import DrawSampler, LateBatches, seed_generators, with_draws

_VALIDATED = "last_validation"
"""Key in the message hub of the step after which the last validation ran."""


class _Resumable:
    """Base of both loops: data from any step on, randomness that depends on the step alone.

    If the run stopped between a checkpoint and the validation due after it, the resumed run
    validates first.
    """

    runner: Runner
    dataloader: Any
    _iter: int
    _is_validation_due: Callable[[], bool]

    def __init__(self, runner: Runner, dataloader: Any, **kwargs: Any) -> None:
        loader = with_draws(dataloader, seeds_itself=is_pretraining(runner.cfg))
        super().__init__(runner, loader, **kwargs)  # type: ignore[call-arg]
        self.batches: Iterable = self.dataloader  # hooks may replace it

    def run_iter(self, *args: Any) -> None:
        """Train on a batch, with generators seeded from (seed, rank, step)."""
        entropy = (self.runner.seed, get_rank(), self._iter)
        seed_generators(entropy, on_device=get_device() != "cpu")
        super().run_iter(*args)  # type: ignore[misc]

    def _validate_if_due(self) -> None:
        self._decide_current_val_interval()  # type: ignore[attr-defined]
        if self.runner.val_loop is not None and self._is_validation_due():
            self.runner.val_loop.run()
            self.runner.message_hub.update_info(_VALIDATED, self._iter)

    def _begin(self) -> None:
        self.runner.call_hook("before_train")
        sampler = self._sampler
        if sampler is not None and not self.runner._randomness_cfg.get("diff_rank_seed"):
            sampler.set_seed(self.runner.seed)
        if self._iter and self.runner.message_hub.get_info(_VALIDATED, 0) < self._iter:
            self._validate_if_due()

    @property
    def _sampler(self) -> DrawSampler | None:
        inner = getattr(self.dataloader.batch_sampler, "sampler", None)
        return inner if isinstance(inner, DrawSampler) else None

    def _skip(self, steps: int) -> None:
        """Skip the first batches of the next pass over the data."""
        batches = self.dataloader.batch_sampler
        if isinstance(batches, LateBatches):
            batches.start = steps
        elif self._sampler is not None:
            self._sampler.start = steps * self.dataloader.batch_size
        elif steps:
            raise UserValueError(
                "train_dataloader.sampler must be a dict to resume inside an epoch, but is not; "
                "resume from a checkpoint written at the end of an epoch."
            )


@LOOPS.register_module()
class ResumableEpochLoop(_Resumable, EpochBasedTrainLoop):
    """mmengine's EpochBasedTrainLoop that resumes after any step.

    Raises:
        ValueError: The sampler has no end, so that the first epoch would last for ever.
    """

    def __init__(self, runner: Runner, dataloader: Any, **kwargs: Any) -> None:
        super().__init__(runner, dataloader, **kwargs)
        if self._sampler is not None and self._sampler.is_endless:
            raise UserValueError(
                "train_dataloader.sampler must end with an epoch in an EpochBasedTrainLoop, but an "
                "InfiniteSampler does not; take DefaultSampler, or train_cfg=dict(by_epoch=False, "
                "max_iters=N)."
            )

    def run(self) -> nn.Module:
        """Train, and validate when it is time."""
        self._begin()
        while self._epoch < self._max_epochs and not self.stop_training:
            self.run_epoch()
            self._validate_if_due()
        self.runner.call_hook("after_train")
        return self.runner.model

    def run_epoch(self) -> None:
        """Train for an epoch, or for the rest of it."""
        done = self._iter - self._epoch * len(self.dataloader)
        if not 0 <= done <= len(self.dataloader):
            raise UserValueError(
                f"cannot resume: the checkpoint is {done} steps into an epoch, which has "
                f"{len(self.dataloader)} now. Use the images and batch size of its training."
            )

        self.runner.call_hook("before_train_epoch")
        self.runner.model.train()
        self._skip(done)
        for i, batch in enumerate(self.batches, done):
            self.run_iter(i, batch)
        self.runner.call_hook("after_train_epoch")
        self._epoch += 1

    def _is_validation_due(self) -> bool:
        return (
            self._iter == self._epoch * len(self.dataloader)
            and self._epoch >= self.val_begin
            and (self._epoch % self.val_interval == 0 or self._epoch == self._max_epochs)
        )


@LOOPS.register_module()
class ResumableIterLoop(_Resumable, IterBasedTrainLoop):
    """mmengine's IterBasedTrainLoop that resumes after any step without loading data twice."""

    def run(self) -> nn.Module:
        """Train, and validate when it is time."""
        self._begin()
        self.runner.call_hook("before_train_epoch")
        batches = self._batches()
        while self._iter < self._max_iters and not self.stop_training:
            self.runner.model.train()
            self.run_iter(next(batches))
            self._validate_if_due()
        self.runner.call_hook("after_train_epoch")
        self.runner.call_hook("after_train")
        return self.runner.model

    def _batches(self) -> Iterator[Any]:
        sampler = self._sampler
        while True:
            is_endless = sampler is not None and sampler.is_endless
            passes, done = (
                (0, self._iter) if is_endless else divmod(self._iter, len(self.dataloader))
            )
            if sampler is not None:
                sampler.set_epoch(passes)
            self._skip(done)
            yield from self.batches

    def _is_validation_due(self) -> bool:
        is_last = self._iter == self._max_iters
        return self._iter >= self.val_begin and (self._iter % self.val_interval == 0 or is_last)


_RESUMABLE = {EpochBasedTrainLoop: ResumableEpochLoop, IterBasedTrainLoop: ResumableIterLoop}


def use_resumable_loop(cfg: Config) -> None:
    """Replace mmengine's train loop in a config by its resumable form."""
    loop = cfg.get("train_cfg")
    if not loop:
        return
    named = "EpochBasedTrainLoop" if loop.get("by_epoch") else "IterBasedTrainLoop"
    kind = _RESUMABLE.get(class_of(loop.get("type", named), LOOPS))
    if kind is not None:
        loop.pop("by_epoch", None)
        loop["type"] = f"mmssprl.{kind.__name__}"
