"""Multi-label classification at CPU size: three stages of a narrow ResNet-18, small images."""

_base_ = "./multi_label_resnet50.py"

image_px = 84
resize_px = 96
base_channels = 16
num_stages = 3

model = dict(
    backbone=dict(
        depth=18,
        stem_channels=base_channels,
        base_channels=base_channels,
        num_stages=num_stages,
        strides=(1, 2, 2),
        dilations=(1, 1, 1),
        out_indices=(num_stages - 1,),
    ),
    head=dict(in_channels=base_channels * 2 ** (num_stages - 1)),
)
train_pipeline = _base_.train_pipeline
train_pipeline[1]["scale"] = image_px
test_pipeline = _base_.test_pipeline
test_pipeline[1]["scale"] = resize_px
test_pipeline[2]["crop_size"] = image_px
