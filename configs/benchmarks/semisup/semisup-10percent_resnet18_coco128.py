"""Fine-tuning with 10 % of the labels on 100 + 100 images of COCO.

    python tools/train.py configs/benchmarks/semisup/semisup-10percent_resnet18_coco128.py \
        --weights BACKBONE.pth

A check that the protocol runs on real images. With only 100 training images, the scores are noise.
Hardware: one CPU core, about 30 s.
"""

_base_ = ["../../_base_/multi_label_small.py", "../../_base_/finetune_schedule_small.py"]

data_root = "data/coco128"
fraction = 0.1
max_epochs = 60
lr_steps = [36, 48]

model = dict(frozen_backbone=False, head=dict(num_classes=80))
train_dataloader = dict(dataset=dict(data_root=data_root, fraction=fraction))
val_dataloader = dict(dataset=dict(data_root=data_root))
test_dataloader = val_dataloader
param_scheduler = [dict(_base_.param_scheduler[0], milestones=lr_steps)]
train_cfg = dict(max_epochs=max_epochs, val_interval=max_epochs)
