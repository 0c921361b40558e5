"""Fine-tuning with all labels on 100 + 100 images of COCO.

    python tools/train.py configs/benchmarks/semisup/semisup-100percent_resnet18_coco128.py \
        --weights BACKBONE.pth

CPU size. Hardware: one core. About 40 s.
Shows that the protocol runs on real images; with 100 of them its figures are noise.
"""

_base_ = [
    "../../_base_/multi_label_resnet18.py",
    "../../_base_/multi_label_coco.py",
    "../../_base_/finetune_schedule.py",
    "../../_base_/classification_runtime.py",
]

data_root = "data/coco128"
max_epochs = 20
batch_size = 16
backbone_lr = 0.01
head_lr = 0.1
lr_steps = [12, 16]

model = dict(frozen_backbone=False, head=dict(num_classes=80))
in_process = dict(num_workers=0, persistent_workers=False)
train_dataloader = dict(
    batch_size=batch_size,
    dataset=dict(data_root=data_root, pipeline=_base_.train_pipeline),
    **in_process,
)
val_dataloader = dict(
    dataset=dict(data_root=data_root, pipeline=_base_.test_pipeline), **in_process
)
test_dataloader = val_dataloader
optim_wrapper = dict(
    optimizer=dict(lr=backbone_lr),
    paramwise_cfg=dict(custom_keys={"head": dict(lr_mult=head_lr / backbone_lr)}),
)
param_scheduler = [dict(_base_.param_scheduler[0], milestones=lr_steps)]
train_cfg = dict(max_epochs=max_epochs, val_interval=max_epochs)
