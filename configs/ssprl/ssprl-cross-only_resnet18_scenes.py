"""Ablation of the paper, at CPU size: L_cross and the image scale, no patch terms.

    python tools/train.py configs/ssprl/ssprl-cross-only_resnet18_scenes.py

Data, network, optimizer and schedule of ssprl_resnet18_scenes.py. Hardware: one CPU core.
"""

_base_ = ["./ssprl_resnet18_scenes.py"]

model = dict(head=dict(with_pyramid=False))
