"""Mask R-CNN at CPU size on 200 photographs of COCO: does a folder of real COCO files train?

    python tools/train.py configs/benchmarks/detection/mask-rcnn_resnet18-fpn_coco128.py

A check of loading, polygons, crowds and metric on real files. Data and training time are too small
to detect anything.
Data: 100 training and 100 validation images in data/coco128, in the layout of COCO 2014 with its 80
categories.
Measured with random weights: AP and AP50 below 0.05 (printed as 0.000), also after 220 iterations.
Hardware: one CPU core, 60 s of CPU time.
"""

_base_ = ["../../_base_/mask_rcnn_fpn_small.py"]

data_root = "data/coco128"
scale_px = (432, 256)  # images longer than 5:3 get a shorter short side
batch_size = 4
base_lr = 2e-3
max_iters = 100
warmup_iters = 20

resize = dict(type="Resize", scale=scale_px, keep_ratio=True)
train_pipeline = _base_.train_pipeline
train_pipeline[2] = resize
val_pipeline = _base_.val_pipeline
val_pipeline[1] = resize
# Objects are up to ten times as large as in the small scenes.
extractor = dict(finest_scale=56)
model = dict(
    rpn_head=dict(anchor_generator=dict(scales=[4, 12], ratios=[0.5, 1.0, 2.0])),
    roi_head=dict(bbox_roi_extractor=extractor, mask_roi_extractor=extractor),
)
train_dataloader = dict(
    batch_size=batch_size, dataset=dict(data_root=data_root, pipeline=train_pipeline)
)
val_dataloader = dict(dataset=dict(data_root=data_root, pipeline=val_pipeline))
test_dataloader = val_dataloader
val_evaluator = dict(ann_file=f"{data_root}/{_base_.val_ann_file}")
test_evaluator = val_evaluator
optim_wrapper = dict(optimizer=dict(lr=base_lr))
warmup, cosine = _base_.param_scheduler
param_scheduler = [
    dict(warmup, end=warmup_iters),
    dict(cosine, T_max=max_iters - warmup_iters, begin=warmup_iters, end=max_iters),
]
train_cfg = dict(max_iters=max_iters, val_interval=max_iters)
default_hooks = dict(checkpoint=dict(interval=max_iters))
