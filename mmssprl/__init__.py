"""SS-PRL, self-supervised pyramid representation learning, for OpenMMLab."""

from ._dependencies import check_dependencies

__version__ = "0.1.0"

check_dependencies()
