"""Checks of the data sets' folders, and what has to be converted.

Each data set is a module with ``TREE``, the files that it wants below ``root``, and
``check(root, any_size=...)``, which looks and changes nothing. With ``any_size`` other numbers of
images and categories than the official ones are right too. ``voc12aug`` also has ``convert``.
"""

from mmssprl.preparation.finding import OK, Finding, format_remedies, format_table
from mmssprl.preparation.run import DATA_SETS, prepare

__all__ = ["DATA_SETS", "OK", "Finding", "format_remedies", "format_table", "prepare"]
