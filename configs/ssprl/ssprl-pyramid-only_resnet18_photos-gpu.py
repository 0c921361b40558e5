"""Ablation of the paper, at GPU size for photographs: L_pyr alone, no cross-scale term.

    python tools/train.py configs/ssprl/ssprl-pyramid-only_resnet18_photos-gpu.py \
        --amp --cfg-options train_dataloader.dataset.data_root=PHOTOS

Network, optimizer and schedule of ssprl_resnet18_photos-gpu.py. Hardware: one GPU; a CPU is slow.
"""

_base_ = ["./ssprl_resnet18_photos-gpu.py"]

model = dict(head=dict(with_cross=False))
