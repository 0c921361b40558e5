"""Mask R-CNN, ResNet-50 with FPN, COCO train2014 -> val2014, 15k iterations: the paper's table.

    bash tools/dist_train.sh \
        configs/benchmarks/detection/mask-rcnn_resnet50-fpn_8xb2-15k_coco14.py 8 \
        --weights backbone.pth

Data: data/coco (82,783 training, 40,504 validation images).
Paper, AP / AP50 / AP75 of boxes, then of masks: random 11.5/21.3/11.3, 10.8/19.7/10.7; SS-PRL on
COCO 20.2/36.7/20.2, 19.1/34.3/19.0; SS-PRL on ImageNet 23.6/42.5/24.0, 22.7/39.7/23.1.
Differs from the released code: its steps are for 90k iterations (60k, 80k) and are scaled to 15k
here. It recomputes the statistics of BatchNorm before a test (PreciseBN), and this config does not.
Hardware: 8 GPUs x 2 images. Not run at full scale, so wall time, memory and AP are unknown.
"""

_base_ = [
    "../../_base_/mask_rcnn_fpn.py",
    "../../_base_/coco_instance.py",
    "../../_base_/dense_runtime.py",
]

weights = "random"  # or "supervised" or a backbone file, set by --weights
data_root = "data/coco"
num_gpus = 8
batch_size = 2  # per GPU
base_lr = 0.02  # for num_gpus x batch_size = 16 images
max_iters = 15_000
warmup_iters = 1000  # from lr / 1000. ASSUMPTION: detectron2's default, not in the paper
val_interval_iters = 5000
# The first process alone scores boxes and masks, and the others wait. For val2014 that takes 10
# minutes of CPU time, extrapolated from 300 images; the shipped 600 s would end the training.
timeout_s = 3600

train_dataloader = dict(batch_size=batch_size, dataset=dict(data_root=data_root))
val_dataloader = dict(dataset=dict(data_root=data_root))
test_dataloader = val_dataloader
val_evaluator = dict(ann_file=f"{data_root}/{_base_.val_ann_file}")
test_evaluator = val_evaluator
optim_wrapper = dict(
    type="OptimWrapper",
    optimizer=dict(type="SGD", lr=base_lr, momentum=0.9, weight_decay=1e-4),
)
warmup = dict(type="LinearLR", start_factor=0.001, by_epoch=False, begin=0, end=warmup_iters)
steps = dict(
    type="MultiStepLR",
    milestones=[max_iters * 6 // 9, max_iters * 8 // 9],
    gamma=0.1,
    by_epoch=False,
)
param_scheduler = [warmup, steps]
train_cfg = dict(type="IterBasedTrainLoop", max_iters=max_iters, val_interval=val_interval_iters)
auto_scale_lr = dict(enable=False, base_batch_size=num_gpus * batch_size)
env_cfg = dict(dist_cfg=dict(timeout=timeout_s))
