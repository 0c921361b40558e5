"""Cross-scale terms with a quarter of their weight."""

_base_ = ["../../../configs/ssprl/ssprl-small-views-sampled_resnet18_{{$SIZE:photos-gpu}}.py"]

model = dict(head=dict(cross_weight=0.25))
