"""The paper's epsilon."""

_base_ = ["../../../configs/ssprl/ssprl-small-views-sampled_resnet18_{{$SIZE:photos-gpu}}.py"]

model = dict(head=dict(epsilon=0.05))
