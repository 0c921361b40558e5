"""What the log of a pre-training says about its progress, its pace and its memory."""

from collections import OrderedDict

from mmengine.device import get_device
from mmengine.runner import LogProcessor, Runner

from ..console.log_line import LogLine, console_line, relative_name
from ..models import LossTerm, PretrainingModel
from ..models.unwrap import unwrap
from ..registry import LOG_PROCESSORS
from ..system.environment import peak_resident_mib


@LOG_PROCESSORS.register_module()
class PretrainLogProcessor(LogProcessor):
    """mmengine's LogProcessor, with additions to the lines of a training.

    * ``time`` and ``data_time`` are means over the steps since the last line. On a GPU the host
      runs ahead of the device and waits for it only where a line is written: a shorter window
      would count the wait of many steps in a few.
    * ``images_per_second`` are the images of a step on all ranks divided by that ``time``.
    * ``memory`` is also there without a GPU: the highest resident size of this process in MiB,
      without its data workers.
    * ``eta`` in seconds is among the scalars, too; ``epochs_done`` and ``progress``, the share of
      the training, are; and of each term of the loss ``relative_...``, see ``LossTerm.relative``,
      but for the first lines after its weight has changed.
    * The text has a short form for the console.

    Attributes:
        latest: The scalars of the last line of the training, for hooks that run after LoggerHook.
    """

    latest: dict | None = None

    _num_steps = 0
    """Steps since the last line, this line's included."""
    _last_step: int | None = None

    def get_log_after_iter(self, runner: Runner, batch_idx: int, mode: str) -> tuple[dict, str]:
        """Return the scalars and the text of one line."""
        if mode == "train":
            step = runner.iter + 1
            # The first line of a process: it began with this epoch.
            self._num_steps = batch_idx + 1 if self._last_step is None else step - self._last_step
            self._last_step = step
        tag, text = super().get_log_after_iter(runner, batch_idx, mode)
        if mode != "train":
            return tag, text
        if runner.message_hub.get_info("eta") is not None:
            tag["eta"] = runner.message_hub.get_info("eta")
        tag["epochs_done"] = (runner.iter + 1) / len(runner.train_dataloader)
        tag["progress"] = (runner.iter + 1) / runner.max_iters
        self.latest = {name.removeprefix("train/"): value for name, value in tag.items()}
        self.latest["step"] = runner.iter + 1  # the visualizer adds it to the others
        counts = all(term.num_classes for term in _loss_terms(runner).values())
        chance = "ln K" if counts else "chance"
        return tag, LogLine(text, console_line(self.latest, runner.max_epochs, chance))

    def _collect_scalars(
        self, custom_cfg: list[dict], runner: Runner, mode: str, reserve_prefix: bool = False
    ) -> OrderedDict:
        tag = super()._collect_scalars(custom_cfg, runner, mode, reserve_prefix)
        if mode != "train":
            return tag
        prefix = "train/" if reserve_prefix else ""
        for name in ("time", "data_time"):
            if f"{prefix}{name}" in tag:
                history = runner.message_hub.get_scalar(f"train/{name}")
                tag[f"{prefix}{name}"] = history.mean(self._num_steps)
        batch_size = runner.train_dataloader.batch_size  # None with a batch sampler of its own
        if tag.get(f"{prefix}time") and batch_size:
            images = batch_size * runner.world_size
            tag[f"{prefix}images_per_second"] = images / tag[f"{prefix}time"]
        if get_device() == "cpu":
            tag["memory"] = peak_resident_mib()  # the name that mmengine has for a GPU's
        for name, term in _loss_terms(runner).items():
            # A logged loss is a mean over the last steps, which must have had one weight.
            has_one_weight = not term.since or runner.iter + 1 - term.since >= self.window_size
            relative = term.relative(tag[f"{prefix}{name}"]) if f"{prefix}{name}" in tag else None
            if relative is not None and has_one_weight:
                tag[f"{prefix}{relative_name(name)}"] = relative
        return tag


def _loss_terms(runner: Runner) -> dict[str, LossTerm]:
    model = unwrap(runner.model)
    return model.loss_terms() if isinstance(model, PretrainingModel) else {}
