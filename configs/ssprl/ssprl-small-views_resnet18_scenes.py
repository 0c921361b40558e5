"""SS-PRL (paper form) with six small views, at CPU size.

    python tools/train.py configs/ssprl/ssprl-small-views_resnet18_scenes.py

Data, network, optimizer and schedule of ssprl_resnet18_scenes.py. The released code has these small
views; the paper describes none. Hardware: one CPU core.
"""

_base_ = ["./ssprl_resnet18_scenes.py"]

layout = dict(_base_.layout, num_small=6)
model = dict(layout=layout)
