"""Ablation of the paper, at CPU size: L_pyr alone, no cross-scale term.

    python tools/train.py configs/ssprl/ssprl-pyramid-only_resnet18_scenes.py

Data, network, optimizer and schedule of ssprl_resnet18_scenes.py. Hardware: one CPU core.
"""

_base_ = ["./ssprl_resnet18_scenes.py"]

model = dict(head=dict(with_cross=False))
