"""Multi-label classification at CPU size: three stages of a narrow ResNet-18, small images.

The data have the layout of COCO. The training process loads them, without workers.
"""

_base_ = ["./multi_label_resnet50.py", "./multi_label_coco.py", "./classification_runtime.py"]

batch_size = 16
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
in_process = dict(num_workers=0, persistent_workers=False)
train_dataloader = dict(batch_size=batch_size, dataset=dict(pipeline=train_pipeline), **in_process)
val_dataloader = dict(dataset=dict(pipeline=test_pipeline), **in_process)
test_dataloader = val_dataloader
