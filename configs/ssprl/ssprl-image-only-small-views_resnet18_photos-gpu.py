"""The image scale with six small views, which is SwAV with multi-crop, for photographs on a GPU.

    python tools/train.py configs/ssprl/ssprl-image-only-small-views_resnet18_photos-gpu.py \
        --amp --cfg-options train_dataloader.dataset.data_root=PHOTOS

Network, optimizer and schedule of ssprl_resnet18_photos-gpu.py. Hardware: one GPU; a CPU is slow.
"""

_base_ = ["./ssprl_resnet18_photos-gpu.py"]

layout = dict(_base_.layout, levels=[], num_small=6)
model = dict(layout=layout)
