"""Linear multi-label classification on 100 + 100 images of COCO.

    python tools/train.py configs/benchmarks/classification/linear_resnet18_coco128.py \
        --weights BACKBONE.pth

A check that the protocol runs on real images. With only 100 training images, the scores are noise.
Hardware: one CPU core, about 25 s.
"""

_base_ = ["../../_base_/multi_label_small.py", "../../_base_/linear_schedule_small.py"]

data_root = "data/coco128"

model = dict(head=dict(num_classes=80))
train_dataloader = dict(dataset=dict(data_root=data_root))
val_dataloader = dict(dataset=dict(data_root=data_root))
test_dataloader = val_dataloader
