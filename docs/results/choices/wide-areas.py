"""Patches of crops of 30 to 100 % of the image instead of 60 to 100 %."""

_base_ = ["../../../configs/ssprl/ssprl-small-views-sampled_resnet18_{{$SIZE:photos-gpu}}.py"]

layout = dict(
    _base_.layout,
    levels=[
        dict(_base_.layout.levels[0], area=(0.3, 1.0)),
        dict(_base_.layout.levels[1], area=(0.3, 1.0)),
    ],
)
model = dict(layout=layout)
