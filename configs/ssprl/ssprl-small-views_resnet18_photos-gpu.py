"""SS-PRL (paper form) with six small views, at GPU size for photographs.

    python tools/train.py configs/ssprl/ssprl-small-views_resnet18_photos-gpu.py \
        --amp --cfg-options train_dataloader.dataset.data_root=PHOTOS

Network, optimizer and schedule of ssprl_resnet18_photos-gpu.py. The released code has these small
views; the paper describes none. Hardware: one GPU; a CPU is slow.
"""

_base_ = ["./ssprl_resnet18_photos-gpu.py"]

layout = dict(_base_.layout, num_small=6)
model = dict(layout=layout)
