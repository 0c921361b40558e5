"""MoCo v2 on COCO with a queue of 4,096 keys and key momentum 0.995, as in arXiv:2308.03286.

    bash tools/dist_train.sh \\
        configs/baselines/mocov2-k4096_resnet50_2xb64-coslr-200e_coco.py 2 --amp

Everything else is as in mocov2_resnet50_2xb64-coslr-200e_coco.py, including its assumptions. The
queue holds 1/20 of an epoch of train2014 instead of 0.79.
Hardware: 2 GPUs x 64 images. Not run at full scale, so wall time, memory and mAP are unknown.
"""

_base_ = ["./mocov2_resnet50_2xb64-coslr-200e_coco.py"]

model = dict(queue_length=4096, momentum=0.995)
