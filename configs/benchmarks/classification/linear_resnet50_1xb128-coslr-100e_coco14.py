"""Linear multi-label classification on COCO: frozen ResNet-50, train2014 -> val2014.

    python tools/train.py \
        configs/benchmarks/classification/linear_resnet50_1xb128-coslr-100e_coco14.py \
        --weights BACKBONE.pth

The protocol of the paper. Paper, mAP after pre-training on COCO: SS-PRL 61.3, SwAV 60.3, supervised
62.5. These are probably scores of the best epoch on the test images; this config reports the last
epoch.
Hardware: one GPU. With n GPUs set batch_size to 128 / n. Not run at full scale.
"""

_base_ = [
    "../../_base_/multi_label_resnet50.py",
    "../../_base_/multi_label_coco.py",
    "../../_base_/linear_schedule.py",
    "../../_base_/classification_runtime.py",
]

batch_size = 128
lr = 0.1

model = dict(head=dict(num_classes=80))
train_dataloader = dict(batch_size=batch_size, dataset=dict(pipeline=_base_.train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=_base_.test_pipeline))
test_dataloader = val_dataloader
optim_wrapper = dict(optimizer=dict(lr=lr))
