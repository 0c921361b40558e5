"""SS-PRL (paper form) with six small views and sampled patches, at CPU size.

    python tools/train.py configs/ssprl/ssprl-small-views-sampled_resnet18_scenes.py

Data, network, optimizer and schedule of ssprl_resnet18_scenes.py. Small views are the released
code's. Sampled patches are this package's own extension and not in the paper: 2 of 4 and 3 of 9,
drawn anew for each image and step. Hardware: one CPU core.
"""

_base_ = ["./ssprl_resnet18_scenes.py"]

layout = dict(
    _base_.layout,
    num_small=6,
    levels=[
        dict(_base_.layout.levels[0], num_sampled=2),  # of 4 patches
        dict(_base_.layout.levels[1], num_sampled=3),  # of 9
    ],
)
model = dict(layout=layout)
