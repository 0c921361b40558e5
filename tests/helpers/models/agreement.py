"""A minimal pre-training method that shares only the protocol with SS-PRL."""

from torch.nn import functional as F

from mmssprl.functional.pooling import pool
from mmssprl.models import LossTerm, PretrainingModel
from mmssprl.pyramid import ViewLayout
from mmssprl.registry import MODELS

LAYOUT = {"image_px": 16, "levels": []}


@MODELS.register_module()
class Agreement(PretrainingModel):
    """Pulls the features of an image's two views together."""

    def __init__(self, layout, backbone, data_preprocessor=None):
        views = ViewLayout.build(layout)
        preprocessor = {"type": "PyramidPreprocessor", "layout": views, **(data_preprocessor or {})}
        super().__init__(
            backbone=MODELS.build(backbone), data_preprocessor=MODELS.build(preprocessor)
        )
        self.layout = views
        self.calls = []

    def loss(self, inputs, data_samples=None):
        first, second = (pool(self.backbone(view)) for view in inputs[0])
        return {"loss_agreement": 1 - F.cosine_similarity(first, second).mean()}

    def on_epoch_length(self, num_iters):
        self.calls.append(num_iters)

    on_training_length = on_epoch_length

    def before_checkpoint(self):
        self.calls.append("before")

    def after_checkpoint(self):
        self.calls.append("after")

    def loss_terms(self):
        return {"loss_agreement": LossTerm("L", 0, 0.5)}
