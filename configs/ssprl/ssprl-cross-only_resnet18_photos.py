"""Ablation of the paper, at CPU size for photographs: L_cross and the image scale, no patch terms.

    python tools/train.py configs/ssprl/ssprl-cross-only_resnet18_photos.py \
        --cfg-options train_dataloader.dataset.data_root=PHOTOS

Network, optimizer and schedule of ssprl_resnet18_photos.py. Hardware: one CPU core.
"""

_base_ = ["./ssprl_resnet18_photos.py"]

model = dict(head=dict(with_pyramid=False))
