"""Upper bound, not a baseline: the backbone of the scenes configs, trained on all labels.

    python tools/train.py configs/baselines/supervised_resnet18_scenes.py

This is the row `supervised` of `compare`, which sets data and classes, at the size that it probes.
The optimizer is the same as in ssprl_resnet18_scenes.py.
Hardware: one CPU core.
"""

_base_ = ["../_base_/multi_label_small.py"]

max_epochs = 24
batch_size = 64
base_lr = 4e-3
image_px = 96
data_root = "data/scenes/coco"

model = dict(
    frozen_backbone=False,
    backbone=dict(zero_init_residual=True),
    head=dict(num_classes=24),
)
train_pipeline = _base_.train_pipeline
train_pipeline[1]["scale"] = image_px
train_dataloader = dict(
    batch_size=batch_size,
    drop_last=True,
    dataset=dict(data_root=data_root, pipeline=train_pipeline),
)
val_dataloader = val_cfg = val_evaluator = None
test_dataloader = test_cfg = test_evaluator = None
optim_wrapper = dict(
    type="OptimWrapper", optimizer=dict(type="AdamW", lr=base_lr, weight_decay=1e-4)
)
train_cfg = dict(type="EpochBasedTrainLoop", max_epochs=max_epochs)
param_scheduler = [dict(type="CosineAnnealingLR", T_max=max_epochs, convert_to_iter_based=True)]
# Changes at each size (--size). Lists have values for scenes, photos and photos-gpu.
small = {
    "train_cfg.max_epochs": [max_epochs, 20, 20],
    "param_scheduler.0.T_max": [max_epochs, 20, 20],
    "optim_wrapper.optimizer.lr": [base_lr, base_lr, base_lr / 2],
    "train_dataloader.dataset.data_root": [data_root, "data/photos", "data/photos"],
    "train_dataloader.dataset.pipeline.1.scale": [image_px, image_px, 128],
    "model.head.num_classes": [24, 62, 62],
}
