"""SS-PRL, self-supervised pyramid representation learning, for OpenMMLab."""

__version__ = "0.1.0"
