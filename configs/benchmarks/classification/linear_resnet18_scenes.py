"""Linear multi-label classification on the embedded sample data.

    python -m mmssprl scenes data/scenes --num-train 1200 --num-val 600 --image-px 96
    python tools/train.py configs/benchmarks/classification/linear_resnet18_scenes.py \
        --weights BACKBONE.pth

Measured: about 16 % mAP with random weights, about 22 % with weights of `make demo`. The network is
narrow and the images are generated, so the scores say nothing about photographs.
Hardware: one CPU core, about 45 s.
"""

_base_ = ["../../_base_/multi_label_small.py", "../../_base_/linear_schedule_small.py"]

data_root = "data/scenes/coco"
max_epochs = 15
batch_size = 32

model = dict(head=dict(num_classes=24))
train_dataloader = dict(batch_size=batch_size, dataset=dict(data_root=data_root))
val_dataloader = dict(dataset=dict(data_root=data_root))
test_dataloader = val_dataloader
param_scheduler = [dict(_base_.param_scheduler[0], T_max=max_epochs)]
train_cfg = dict(max_epochs=max_epochs, val_interval=max_epochs)
