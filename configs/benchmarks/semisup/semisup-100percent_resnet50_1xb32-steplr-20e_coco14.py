"""Semi-supervised COCO, all labels of train2014: the whole ResNet-50 is fine-tuned.

    python tools/train.py \
        configs/benchmarks/semisup/semisup-100percent_resnet50_1xb32-steplr-20e_coco14.py \
        --weights BACKBONE.pth

The protocol of the paper: 20 epochs, two learning rates, weight decay 1e-6, and gradient norms of
backbone and head clipped separately at 10. (The released script computes features without gradient,
so it trains only the last layer.)
Paper, mAP: SS-PRL 62.9 (COCO pre-training), SwAV 61.4, random weights 42.5. These are probably
scores of the best epoch on the test images; this config reports the last epoch.
Hardware: one GPU. Not run at full scale.
"""

_base_ = [
    "../../_base_/multi_label_resnet50.py",
    "../../_base_/multi_label_coco.py",
    "../../_base_/finetune_schedule.py",
    "../../_base_/classification_runtime.py",
]

batch_size = 32

model = dict(frozen_backbone=False, head=dict(num_classes=80))
train_dataloader = dict(batch_size=batch_size, dataset=dict(pipeline=_base_.train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=_base_.test_pipeline))
test_dataloader = val_dataloader
