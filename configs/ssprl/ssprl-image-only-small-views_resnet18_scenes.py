"""The image scale with six small views, which is SwAV with multi-crop, at CPU size.

    python tools/train.py configs/ssprl/ssprl-image-only-small-views_resnet18_scenes.py

Data, network and schedule of ssprl_resnet18_scenes.py; the small views have the
size of its patches and SwAV's area. Hardware: one CPU core.
"""

_base_ = ["./ssprl_resnet18_scenes.py"]

layout = dict(_base_.layout, levels=[], num_small=6)
model = dict(layout=layout)
