"""FCN at CPU size on 200 photographs with VOC's classes: does a real VOC devkit train?

    python tools/train.py configs/benchmarks/segmentation/fcn_resnet18-d8_voc128.py

A check of loading, void pixels and metric on real files; too little data and time to segment
anything. Data: 100 training and 100 validation images in data/voc128/VOC2007. Hardware: one CPU
core, 45 s of CPU time. Measured with random weights: mIoU 4.0, which is what everything called
background scores; 4.1 after 450 iterations.
"""

_base_ = [
    "../../_base_/fcn_d8_small.py",
    "../../_base_/voc_segmentation.py",
    "../../_base_/dense_runtime.py",
]

weights = "random"  # or a backbone file: --weights sets it
data_root = "data/voc128/VOC2007"
short_side_px = 128
batch_size = 8
base_lr = 3e-3
max_iters = 200
crop_size = (_base_.crop_px, _base_.crop_px)
scale_px = (4 * short_side_px, short_side_px)

train_pipeline = [
    dict(type="LoadImageFromFile"),
    dict(type="LoadAnnotations"),
    dict(type="RandomResize", scale=scale_px, ratio_range=(0.75, 1.5), keep_ratio=True),
    dict(type="RandomCrop", crop_size=crop_size, cat_max_ratio=0.75),
    dict(type="RandomFlip", prob=0.5),
    dict(type="PhotoMetricDistortion"),
    dict(type="PackSegInputs"),
]
val_pipeline = [
    dict(type="LoadImageFromFile"),
    dict(type="Resize", scale=scale_px, keep_ratio=True),
    dict(type="LoadAnnotations"),  # after Resize: the labels keep their own size
    dict(type="PackSegInputs"),
]
train_dataloader = dict(
    batch_size=batch_size,
    num_workers=0,
    persistent_workers=False,
    dataset=dict(
        data_root=data_root,
        ann_file="ImageSets/Segmentation/train.txt",
        data_prefix=dict(seg_map_path="SegmentationClass"),
        pipeline=train_pipeline,
    ),
)
val_dataloader = dict(
    num_workers=0,
    persistent_workers=False,
    dataset=dict(data_root=data_root, pipeline=val_pipeline),
)
test_dataloader = val_dataloader
optim_wrapper = dict(
    type="OptimWrapper", optimizer=dict(type="AdamW", lr=base_lr, weight_decay=1e-4)
)
param_scheduler = [
    dict(type="PolyLR", power=0.9, eta_min=0, by_epoch=False, begin=0, end=max_iters)
]
train_cfg = dict(type="IterBasedTrainLoop", max_iters=max_iters, val_interval=max_iters)
default_hooks = dict(logger=dict(interval=10), checkpoint=dict(interval=max_iters))
