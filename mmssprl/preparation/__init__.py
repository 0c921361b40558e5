"""Checks of the data sets' folders: lists, numbers, and the commands that complete them."""

from .data_sets import DATA_SETS, check_data
from .finding import OK, Finding, format_remedies, format_table

__all__ = ["DATA_SETS", "OK", "Finding", "check_data", "format_remedies", "format_table"]
