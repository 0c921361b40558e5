"""Models. Importing mmpretrain's models registers the names of its backbones, too."""

# ruff: noqa: E402
from ..console.quiet import import_quietly

import_quietly("mmpretrain.models")  # it imports mmdet, which warns of missing operators in mmcv

from .baselines import BYOL, DenseCL, DetCo, DetCoNeck, InsLoc, MaskCo, MoCo, PastePreprocessor
from .distillation import AnchoredSSPRL, PyramidDistillation
from .grouped_batch_norm import GroupedBatchNorm
from .module_backbone import ModuleBackbone
from .momentum_encoder import MomentumEncoder
from .multi_head_neck import MultiHeadNeck
from .multi_label import MultiLabelClassifier, MultiLabelLoss
from .protocol import HealthPanel, LossTerm, PretrainingModel, is_pretraining, pretraining_class
from .prototypes import CorrelationLearner, Prototypes
from .pyramid_model import crop_features
from .pyramid_preprocessor import PyramidPreprocessor
from .queues import FeatureQueue, NegativeQueue
from .sinkhorn_head import SinkhornHead
from .ssprl import SSPRL
from .timm_backbone import TimmBackbone
from .training_size import TrainingSize

__all__ = [
    "AnchoredSSPRL",
    "BYOL",
    "CorrelationLearner",
    "DenseCL",
    "DetCo",
    "DetCoNeck",
    "FeatureQueue",
    "GroupedBatchNorm",
    "HealthPanel",
    "InsLoc",
    "LossTerm",
    "MaskCo",
    "MoCo",
    "ModuleBackbone",
    "MomentumEncoder",
    "MultiHeadNeck",
    "MultiLabelClassifier",
    "MultiLabelLoss",
    "NegativeQueue",
    "PastePreprocessor",
    "PretrainingModel",
    "Prototypes",
    "PyramidDistillation",
    "PyramidPreprocessor",
    "SSPRL",
    "SinkhornHead",
    "TimmBackbone",
    "TrainingSize",
    "crop_features",
    "is_pretraining",
    "pretraining_class",
]
