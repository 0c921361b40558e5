"""Mask R-CNN, ResNet-50 with FPN, COCO train2014 -> val2014, 90k iterations as released.

    bash tools/dist_train.sh \
        configs/benchmarks/detection/mask-rcnn_resnet50-fpn_8xb2-90k_coco14.py 8 \
        --weights backbone.pth

The paper's 15k config with six times the iterations. The learning rate drops at 60k and 80k. The
paper reports AP only for 15k.
Hardware: 8 GPUs x 2 images. Not run at full scale, so wall time, memory and AP are unknown.
"""

_base_ = ["./mask-rcnn_resnet50-fpn_8xb2-15k_coco14.py"]

max_iters = 90_000

param_scheduler = [
    _base_.warmup,
    dict(_base_.steps, milestones=[max_iters * 6 // 9, max_iters * 8 // 9]),
]
train_cfg = dict(max_iters=max_iters)
