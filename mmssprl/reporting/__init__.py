"""One page about a pre-training, finished or not: did it learn, and what comes next."""

from .page import make_report, write_report
from .pictures import write_pictures

__all__ = ["make_report", "write_pictures", "write_report"]
