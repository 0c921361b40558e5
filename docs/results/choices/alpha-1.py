"""Patch terms with the weight of the image's."""

_base_ = ["../../../configs/ssprl/ssprl-small-views-sampled_resnet18_{{$SIZE:photos-gpu}}.py"]

model = dict(head=dict(alpha=1.0))
