"""SS-PRL (paper form), six small views, sampled patches, ResNet-50, COCO train2014, 200 epochs.

    bash tools/dist_train.sh \\
        configs/ssprl/ssprl-small-views-sampled_resnet50_2xb64-coslr-200e_coco.py 2 --amp

This is the form that `pretrain --method ssprl-small-sampled` trains, with the views and queues
that it chooses for COCO train2014 on 2 GPUs. Everything else is as in
ssprl_resnet50_2xb64-coslr-200e_coco.py. Small views are as in the released code. Sampled patches
are an extension of this package, not in the paper: 2 of 4 and 3 of 9, drawn again for each image
and step.
ASSUMPTION: the released recipe suits this form.
Hardware: 2 GPUs x 64 images. Not run at full scale, so wall time, memory and mAP are unknown.
"""

_base_ = ["./ssprl_resnet50_2xb64-coslr-200e_coco.py"]

layout = dict(
    _base_.layout,
    num_small=6,
    levels=[
        dict(_base_.layout.levels[0], num_sampled=2),  # out of 4 patches
        dict(_base_.layout.levels[1], num_sampled=3),  # out of 9
    ],
)
model = dict(layout=layout)
