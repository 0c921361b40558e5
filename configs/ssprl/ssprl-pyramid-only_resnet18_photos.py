"""Ablation of the paper, at CPU size for photographs: L_pyr alone, no cross-scale term.

    python tools/train.py configs/ssprl/ssprl-pyramid-only_resnet18_photos.py \
        --cfg-options train_dataloader.dataset.data_root=PHOTOS

Network, optimizer and schedule of ssprl_resnet18_photos.py. Hardware: one CPU core.
"""

_base_ = ["./ssprl_resnet18_photos.py"]

model = dict(head=dict(with_cross=False))
