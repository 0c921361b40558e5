"""mmengine's runner with a console for people."""

from typing import Any

from mmengine.logging import MMLogger
from mmengine.runner import Runner

from ..console import keep_off_console


class ConsoleRunner(Runner):
    """mmengine's Runner whose dumps of environment, config and hooks go to the log file alone."""

    def build_logger(self, *args: Any, **kwargs: Any) -> MMLogger:
        """Build the logger of the run, which keeps notices off the console."""
        logger = super().build_logger(*args, **kwargs)
        keep_off_console(logger)
        return logger
