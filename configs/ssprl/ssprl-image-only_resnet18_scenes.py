"""The image scale alone, which is SwAV without small views, at CPU size.

    python tools/train.py configs/ssprl/ssprl-image-only_resnet18_scenes.py

Data, network and schedule of ssprl_resnet18_scenes.py. Hardware: one CPU core.
"""

_base_ = ["./ssprl_resnet18_scenes.py"]

layout = dict(_base_.layout, levels=[])
model = dict(layout=layout)
