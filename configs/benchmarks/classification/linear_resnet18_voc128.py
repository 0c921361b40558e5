"""Linear multi-label classification on 100 + 100 images in VOC layout.

    python tools/train.py configs/benchmarks/classification/linear_resnet18_voc128.py \
        --weights BACKBONE.pth

A check that the protocol runs on real images. With only 100 training images, the scores are noise.
Hardware: one CPU core, about 25 s.
"""

_base_ = ["../../_base_/multi_label_small.py", "../../_base_/linear_schedule_small.py"]

data_root = "data/voc128/VOC2007"

data = dict(_delete_=True, type="VocMultiLabel", data_root=data_root)
model = dict(head=dict(num_classes=20))
train_dataloader = dict(dataset=dict(data, split="trainval", pipeline=_base_.train_pipeline))
val_dataloader = dict(dataset=dict(data, split="test", pipeline=_base_.test_pipeline))
test_dataloader = val_dataloader
