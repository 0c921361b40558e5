"""SS-PRL (paper form) whose patches are its small views, ResNet-50, COCO train2014, 200 epochs.

    bash tools/dist_train.sh \\
        configs/ssprl/ssprl-shared-views_resnet50_2xb64-coslr-200e_coco.py 2 --amp

All else as in ssprl_resnet50_2xb64-coslr-200e_coco.py. Patches that serve the image scale as small
views are this package's own form: six of them, of 1 of 4 and 2 of 9 cells, drawn anew for each
image and step, are the patches and the small views in one. ASSUMPTION: the released recipe fits
this form. Hardware: 2 GPUs x 64 images. Not run at full scale: wall time, memory and mAP are not
measured.
"""

_base_ = ["./ssprl_resnet50_2xb64-coslr-200e_coco.py"]

layout = dict(
    _base_.layout,
    levels=[
        dict(_base_.layout.levels[0], num_sampled=1, is_small_view=True),  # of 4 patches
        dict(_base_.layout.levels[1], num_sampled=2, is_small_view=True),  # of 9
    ],
)
model = dict(layout=layout)
