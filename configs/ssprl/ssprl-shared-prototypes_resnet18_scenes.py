"""Ablation of the paper, at CPU size: one set of prototypes for all scales.

    python tools/train.py configs/ssprl/ssprl-shared-prototypes_resnet18_scenes.py

Data, network, optimizer and schedule of ssprl_resnet18_scenes.py. Hardware: one CPU core.
"""

_base_ = ["./ssprl_resnet18_scenes.py"]

model = dict(head=dict(share_prototypes=True))
