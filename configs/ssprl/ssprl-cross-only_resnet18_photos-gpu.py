"""Ablation of the paper, at GPU size for photographs: L_cross and the image scale, no patch terms.

    python tools/train.py configs/ssprl/ssprl-cross-only_resnet18_photos-gpu.py \
        --amp --cfg-options train_dataloader.dataset.data_root=PHOTOS

Network, optimizer and schedule of ssprl_resnet18_photos-gpu.py. Hardware: one GPU; a CPU is slow.
"""

_base_ = ["./ssprl_resnet18_photos-gpu.py"]

model = dict(head=dict(with_pyramid=False))
