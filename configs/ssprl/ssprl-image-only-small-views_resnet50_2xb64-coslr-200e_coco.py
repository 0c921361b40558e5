"""SwAV (arXiv:2006.09882) with its six small views, ResNet-50, COCO train2014, 200 epochs.

    bash tools/dist_train.sh \\
        configs/ssprl/ssprl-image-only-small-views_resnet50_2xb64-coslr-200e_coco.py 2 --amp

Recipe: only the image scale of SS-PRL. Views and augmentation are SwAV's published ones (2 x 224
px, 6 x 96 px).
ASSUMPTION: everything else, including batch 128, is as in the released recipe of SS-PRL.
Reported in the SS-PRL paper: 60.3 mAP (COCO), 79.2 mAP (VOC07) with a linear classifier on SwAV's
features, trained with unknown settings.
Hardware: 2 GPUs x 64 images. Not run at full scale, so wall time, memory and mAP are unknown.
"""

_base_ = ["./ssprl_resnet50_2xb64-coslr-200e_coco.py"]

layout = dict(_base_.layout, levels=[], num_small=6)
model = dict(layout=layout)
