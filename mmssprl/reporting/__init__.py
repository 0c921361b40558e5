"""One page about a pre-training, finished or not: did it learn, and what comes next."""

from .figures import write_figures
from .page import make_report, report_run, write_report

__all__ = ["make_report", "report_run", "write_figures", "write_report"]
