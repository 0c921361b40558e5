"""Linear multi-label classification on 100 + 100 images of COCO.

    python tools/train.py configs/benchmarks/classification/linear_resnet18_coco128.py \
        --weights BACKBONE.pth

CPU size. Hardware: one core. About 25 s.
Shows that the protocol runs on real images; with 100 of them its figures are noise.
"""

_base_ = ["../../_base_/multi_label_small.py", "../../_base_/linear_schedule_small.py"]

data_root = "data/coco128"

model = dict(head=dict(num_classes=80))
train_dataloader = dict(dataset=dict(data_root=data_root))
val_dataloader = dict(dataset=dict(data_root=data_root))
test_dataloader = val_dataloader
