"""mmengine's runner with a console for people."""

from typing import Any

from mmengine.config import Config
from mmengine.logging import MMLogger
from mmengine.runner import Runner

from ..console import import_quietly, keep_off_console


class ConsoleRunner(Runner):
    """mmengine's Runner whose dumps of environment, config and hooks go to the log file alone."""

    @classmethod
    def from_cfg(cls, cfg: Config) -> Runner:
        """Build a runner; the packages of the config's scope print nothing while imported."""
        if cfg.get("default_scope") in ("mmdet", "mmseg"):
            import_quietly(f"{cfg.default_scope}.datasets")
        return super().from_cfg(cfg)

    def build_logger(self, *args: Any, **kwargs: Any) -> MMLogger:
        """Build the logger of the run, which keeps notices off the console."""
        logger = super().build_logger(*args, **kwargs)
        keep_off_console(logger)
        return logger
