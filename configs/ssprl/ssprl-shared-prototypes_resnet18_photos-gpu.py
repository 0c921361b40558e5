"""Ablation of the paper, at GPU size for photographs: one set of prototypes for all scales.

    python tools/train.py configs/ssprl/ssprl-shared-prototypes_resnet18_photos-gpu.py \
        --amp --cfg-options train_dataloader.dataset.data_root=PHOTOS

Network, optimizer and schedule of ssprl_resnet18_photos-gpu.py. Hardware: one GPU; a CPU is slow.
"""

_base_ = ["./ssprl_resnet18_photos-gpu.py"]

model = dict(head=dict(share_prototypes=True))
