"""Only the second level, 3 of 9 patches a step."""

_base_ = ["../../../configs/ssprl/ssprl-small-views-sampled_resnet18_{{$SIZE:photos-gpu}}.py"]

layout = dict(
    _base_.layout,
    levels=[
        _base_.layout.levels[1],
    ],
)
model = dict(layout=layout)
