"""Imports mmpretrain's models, and with them mmdet, which warn of operators that mmcv lacks."""

from ..console.quiet import import_quietly

import_quietly("mmpretrain.models")
