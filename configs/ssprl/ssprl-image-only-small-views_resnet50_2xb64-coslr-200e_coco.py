"""SwAV (arXiv:2006.09882) with its six small views, ResNet-50, COCO train2014, 200 epochs.

    bash tools/dist_train.sh \\
        configs/ssprl/ssprl-image-only-small-views_resnet50_2xb64-coslr-200e_coco.py 2 --amp

The image scale of SS-PRL alone. Views and augmentation are SwAV's published ones (2 x 224 px, 6 x
96 px). ASSUMPTION: all else as in the released recipe of SS-PRL, batch 128 included. The SS-PRL
paper gives 60.3 mAP (COCO), 79.2 mAP (VOC07) with a linear classifier on SwAV's features, trained
with settings that it does not give. Hardware: 2 GPUs x 64 images. Not run at full scale: wall time,
memory and mAP are not measured.
"""

_base_ = ["./ssprl_resnet50_2xb64-coslr-200e_coco.py"]

layout = dict(_base_.layout, levels=[], num_small=6)
model = dict(layout=layout)
