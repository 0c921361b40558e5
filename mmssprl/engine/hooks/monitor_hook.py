"""Says during a training what is wrong with it."""

from collections import deque
from typing import Any

from mmengine.hooks import Hook
from mmengine.runner import Runner

from ...console.log_line import LogLine
from ...console.wording import wrapped
from ...errors import UserTypeError
from ...monitoring import Record, find_troubles
from ...registry import HOOKS
from ..log_processor import PretrainLogProcessor

_EPOCHS, _SHARE = 4.0, 0.12
"""How long lines are kept; the troubles look back less."""


@HOOKS.register_module()
class MonitorHook(Hook):
    """Name each trouble of ``mmssprl.monitoring`` once, in a warning of one line with its cure.

    It looks at the lines of the log alone, of rank 0, after they are written.
    """

    priority = "LOW"  # after LoggerHook

    def __init__(self) -> None:
        self._records: deque[Record] = deque()
        self._named: set[str] = set()

    def before_train(self, runner: Runner) -> None:
        """Check that there will be lines to look at.

        Raises:
            TypeError: Another log processor.
        """
        if not isinstance(runner.log_processor, PretrainLogProcessor):
            raise UserTypeError(
                "MonitorHook needs log_processor=dict(type='PretrainLogProcessor'), but got "
                f"{type(runner.log_processor).__name__}; set it, or leave the hook out."
            )

    def after_train_iter(
        self, runner: Runner, batch_idx: int, data_batch: Any = None, outputs: Any = None
    ) -> None:
        """Look at the line that has just been written, if one has been."""
        latest = runner.log_processor.latest
        if latest is None or (self._records and latest is self._records[-1]):
            return
        self._records.append(latest)
        while self._is_past(self._records[0], latest):
            self._records.popleft()
        for trouble in find_troubles(self._records):
            if trouble.key not in self._named:
                self._named.add(trouble.key)
                line = LogLine(trouble.line, wrapped(f"warning: {trouble.line}"))
                runner.logger.warning(line)

    @staticmethod
    def _is_past(record: Record, latest: Record) -> bool:
        epochs = latest["epochs_done"] - record["epochs_done"]
        return epochs > _EPOCHS and latest["progress"] - record["progress"] > _SHARE
