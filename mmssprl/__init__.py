"""SS-PRL, self-supervised pyramid representation learning, for OpenMMLab."""

from ._dependencies import check_dependencies
from ._mmcv_operators import provide_operators

__version__ = "0.1.0"

check_dependencies()
provide_operators()
