"""Ablation of the paper, at CPU size for photographs: one set of prototypes for all scales.

    python tools/train.py configs/ssprl/ssprl-shared-prototypes_resnet18_photos.py \
        --cfg-options train_dataloader.dataset.data_root=PHOTOS

Network, optimizer and schedule of ssprl_resnet18_photos.py. Hardware: one CPU core.
"""

_base_ = ["./ssprl_resnet18_photos.py"]

model = dict(head=dict(share_prototypes=True))
