"""Linear multi-label classification on VOC2007: frozen ResNet-50, trainval -> test.

    python tools/train.py \
        configs/benchmarks/classification/linear_resnet50_1xb32-coslr-100e_voc07.py \
        --weights BACKBONE.pth

The protocol of the paper. Loss and metric ignore labels marked difficult. Paper, mAP after
pre-training on COCO: SS-PRL 80.5, SwAV 79.2, supervised 81.8. These are probably scores of the best
epoch on the test images; this config reports the last epoch.
Hardware: one GPU. Not run at full scale.
"""

_base_ = [
    "../../_base_/multi_label_resnet50.py",
    "../../_base_/multi_label_voc.py",
    "../../_base_/linear_schedule.py",
    "../../_base_/classification_runtime.py",
]

batch_size = 32
lr = 0.03

model = dict(head=dict(num_classes=20))
train_dataloader = dict(batch_size=batch_size, dataset=dict(pipeline=_base_.train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=_base_.test_pipeline))
test_dataloader = val_dataloader
optim_wrapper = dict(optimizer=dict(lr=lr))
