"""Linear multi-label classification on 100 + 100 images of COCO.

    python tools/train.py configs/benchmarks/classification/linear_resnet18_coco128.py \
        --weights BACKBONE.pth

CPU size. Hardware: one core. About 25 s.
Shows that the protocol runs on real images; with 100 of them its figures are noise.
"""

_base_ = [
    "../../_base_/multi_label_resnet18.py",
    "../../_base_/multi_label_coco.py",
    "../../_base_/linear_schedule.py",
    "../../_base_/classification_runtime.py",
]

data_root = "data/coco128"
max_epochs = 20
batch_size = 16
lr = 1.0

model = dict(head=dict(num_classes=80))
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
optim_wrapper = dict(optimizer=dict(lr=lr))
param_scheduler = [dict(_base_.param_scheduler[0], T_max=max_epochs)]
train_cfg = dict(max_epochs=max_epochs, val_interval=max_epochs)
