"""One of 4 and one of 9 patches a step."""

_base_ = ["../../../configs/ssprl/ssprl-small-views-sampled_resnet18_{{$SIZE:photos-gpu}}.py"]

layout = dict(
    _base_.layout,
    levels=[
        dict(_base_.layout.levels[0], num_sampled=1),
        dict(_base_.layout.levels[1], num_sampled=1),
    ],
)
model = dict(layout=layout)
