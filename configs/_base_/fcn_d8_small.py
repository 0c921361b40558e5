"""FCN at CPU size: three stages of a narrow ResNet-18, the last one dilated (output stride 8).

Schedule and pipelines are for the embedded sample data. AdamW replaces SGD, as in pre-training at
this size. The training process loads the data, without workers.
"""

_base_ = ["./fcn_d8.py", "./voc_segmentation.py", "./dense_runtime.py"]

weights = "random"  # or a backbone file, set by --weights
batch_size = 8
base_lr = 3e-3
max_iters = 600
base_channels = 16
crop_px = 96
crop_size = (crop_px, crop_px)

model = dict(
    data_preprocessor=dict(size=crop_size),
    backbone=dict(
        depth=18,
        stem_channels=base_channels,
        base_channels=base_channels,
        num_stages=3,
        strides=(1, 2, 1),
        dilations=(1, 1, 2),
        out_indices=(0, 1, 2),
    ),
    decode_head=dict(in_channels=4 * base_channels, in_index=2, channels=64),
    auxiliary_head=None,  # at full resolution it would cost as much as the main head
)
train_pipeline = [
    dict(type="mmssprl.LoadImage"),
    dict(type="LoadAnnotations"),
    dict(type="RandomResize", scale=crop_size, ratio_range=(1.0, 1.5), keep_ratio=True),
    dict(type="RandomCrop", crop_size=crop_size),
    dict(type="RandomFlip", prob=0.5),
    dict(type="PackSegInputs"),
]
val_pipeline = _base_.val_pipeline
val_pipeline[1]["scale"] = crop_size  # Resize
in_process = dict(num_workers=0, persistent_workers=False)
train_dataloader = dict(
    batch_size=batch_size,
    dataset=dict(
        ann_file="ImageSets/Segmentation/train.txt",
        data_prefix=dict(seg_map_path="SegmentationClass"),
        pipeline=train_pipeline,
    ),
    **in_process,
)
val_dataloader = dict(dataset=dict(pipeline=val_pipeline), **in_process)
test_dataloader = val_dataloader
optim_wrapper = dict(
    type="OptimWrapper", optimizer=dict(type="AdamW", lr=base_lr, weight_decay=1e-4)
)
param_scheduler = [
    dict(type="PolyLR", power=0.9, eta_min=0, by_epoch=False, begin=0, end=max_iters)
]
train_cfg = dict(type="IterBasedTrainLoop", max_iters=max_iters, val_interval=max_iters)
default_hooks = dict(logger=dict(interval=10), checkpoint=dict(interval=max_iters))
