"""One page about a pre-training, finished or not: did it learn, and what comes next."""

from .page import write_report

__all__ = ["write_report"]
