"""One page about a pre-training, finished or not: did it learn, and what comes next."""

from .page import write_report
from .pictures import write_pictures

__all__ = ["write_pictures", "write_report"]
