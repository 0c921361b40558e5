"""SS-PRL (paper form) with six small views, ResNet-50, COCO train2014, 200 epochs.

    bash tools/dist_train.sh \\
        configs/ssprl/ssprl-small-views_resnet50_2xb64-coslr-200e_coco.py 2 --amp

Data, network, optimiser and schedule are as in ssprl_resnet50_2xb64-coslr-200e_coco.py. The six
96 px small views are as in the released code; the paper describes none.
ASSUMPTION: the released recipe suits the paper form with small views.
Hardware: 2 GPUs x 64 images. Not run at full scale, so wall time, memory and mAP are unknown.
"""

_base_ = ["./ssprl_resnet50_2xb64-coslr-200e_coco.py"]

layout = dict(_base_.layout, num_small=6)
model = dict(layout=layout)
