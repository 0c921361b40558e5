"""What a training begins with, what it costs, and whether its features have collapsed."""

from pathlib import Path
from statistics import fmean, median
from typing import Any

from mmengine.config import Config
from mmengine.device import get_device
from mmengine.hooks import Hook
from mmengine.runner import Runner

from ...models.unwrap import unwrap
from ...monitoring.troubles import is_collapsed
from ...system.environment import peak_bytes
from ...timing.stopwatch import work_ns
from ...weights import RANDOM, load_backbone

SPREAD = "embedding_spread"
"""What a model's ``health`` says of its embeddings: the standard deviation of each dimension of
norm(z) times sqrt(D), averaged over the dimensions; about 1 where they spread over the sphere."""
_RANK = "effective_rank"
_SECONDS = "compare_seconds"


class Meter(Hook):
    """Starts the backbone where the row of random weights stands, and measures the training.

    So equal seeds give equal backbones, whatever else a method's model draws; without ``config``
    its weights stay. The seconds of a training that was stopped are those of the epochs up to its
    checkpoint and of those after it.
    """

    measured: dict[str, Any]
    """After the training: ``steps``, ``images``, ``seconds``, ``step_seconds`` (median wall time,
    data included), ``peak_mib``, ``loss`` of the last epoch, ``embedding_spread`` likewise if the
    model logs it, ``collapsed``."""

    def __init__(self, config: Path | None, seed: int) -> None:
        self.config, self.seed = config, seed
        self._now = work_ns()
        self._peak_bytes = 0

    def before_train(self, runner: Runner) -> None:
        """Draw the weights, unless the run goes on, and start the clock."""
        if runner.iter == 0 and self.config is not None:
            drawn = load_backbone(RANDOM, Config.fromfile(self.config), seed=self.seed)
            unwrap(runner.model).backbone.load_state_dict(drawn.state_dict())
        self._start = self._now() / 1e9 - (runner.message_hub.get_info(_SECONDS) or 0.0)

    def after_train_iter(self, runner: Runner, *args: Any, **kwargs: Any) -> None:
        """Look at the memory: at each of its lines the log begins a new peak of the GPU's."""
        self._peak_bytes = max(self._peak_bytes, peak_bytes(get_device()))

    def after_train_epoch(self, runner: Runner) -> None:
        """Keep the time in the checkpoint that follows."""
        runner.message_hub.update_info(_SECONDS, self._now() / 1e9 - self._start)

    def after_train(self, runner: Runner) -> None:
        """Collect what was measured."""
        per_epoch = len(runner.train_dataloader)
        last = {
            name.removeprefix("train/"): fmean(buffer.data[0][-per_epoch:])
            for name, buffer in runner.message_hub.log_scalars.items()
            if name.startswith("train/")
        }
        if _RANK in last:  # of some steps, not of all: a mean would reach back into other epochs
            last[_RANK] = float(runner.message_hub.get_scalar(f"train/{_RANK}").current())
        times = runner.message_hub.log_scalars.get("train/time")
        self.measured = {
            "steps": runner.iter,
            "images": runner.iter * runner.train_dataloader.batch_size,
            "seconds": runner.message_hub.get_info(_SECONDS),
            "step_seconds": median(times.data[0].tolist()) if times else None,
            "peak_mib": round(self._peak_bytes / 2**20),
            "loss": last.get("loss"),
            SPREAD: last.get(SPREAD),
            "collapsed": is_collapsed(last),
        }
