"""Only the first level, 2 of 4 patches a step."""

_base_ = ["../../../configs/ssprl/ssprl-small-views-sampled_resnet18_{{$SIZE:photos-gpu}}.py"]

layout = dict(
    _base_.layout,
    levels=[
        _base_.layout.levels[0],
    ],
)
model = dict(layout=layout)
