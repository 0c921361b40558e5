"""The backbone of the photos-gpu configs trained on the labels of all images: a bound, no baseline.

    python tools/train.py configs/baselines/supervised_resnet18_photos-gpu.py \
        --amp --cfg-options train_dataloader.dataset.data_root=PHOTOS model.head.num_classes=K

For the row `supervised` of `compare`, which sets data and classes, at the size that it probes. The
optimizer is that of ssprl_resnet18_photos-gpu.py. Hardware: one GPU; a CPU is slow.
"""

_base_ = ["../_base_/multi_label_small.py"]

max_epochs = 20
batch_size = 64
base_lr = 2e-3
image_px = 128
data_root = "data/photos"

model = dict(
    frozen_backbone=False,
    backbone=dict(_delete_=True, type="ResNet", depth=18, zero_init_residual=True),
    head=dict(in_channels=512, num_classes=62),
)
train_pipeline = _base_.train_pipeline
train_pipeline[1]["scale"] = image_px
train_dataloader = dict(
    batch_size=batch_size,
    num_workers=4,
    persistent_workers=True,
    pin_memory=True,
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
