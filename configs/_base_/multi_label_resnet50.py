"""Multi-label classification: a backbone, its average pool, one linear layer, sigmoid BCE, mAP."""

weights = "random"
image_px = 224
resize_px = 256  # short side before the centre crop in tests

model = dict(
    type="MultiLabelClassifier",
    frozen_backbone=True,
    data_preprocessor=dict(
        type="ClsDataPreprocessor",
        mean=[123.675, 116.28, 103.53],
        std=[58.395, 57.12, 57.375],
        to_rgb=True,
    ),
    backbone=dict(type="ResNet", depth=50),
    head=dict(
        type="MultiLabelLinearClsHead",
        in_channels=2048,
        loss=dict(type="MultiLabelLoss"),
        init_cfg=dict(type="Normal", layer="Linear", std=0.01, bias=0.1),
    ),
)
train_pipeline = [
    dict(type="mmssprl.LoadImage"),
    dict(type="RandomResizedCrop", scale=image_px, backend="pillow"),
    dict(type="RandomFlip", prob=0.5, direction="horizontal"),
    dict(type="PackInputs"),
]
test_pipeline = [
    dict(type="mmssprl.LoadImage"),
    dict(type="ResizeEdge", scale=resize_px, edge="short", backend="pillow"),
    dict(type="CenterCrop", crop_size=image_px),
    dict(type="PackInputs"),
]
val_evaluator = dict(type="MultiLabelMAP")
test_evaluator = val_evaluator
val_cfg = dict()
test_cfg = dict()
