"""Twice as many prototypes."""

_base_ = ["../../../configs/ssprl/ssprl-small-views-sampled_resnet18_{{$SIZE:photos-gpu}}.py"]

model = dict(head=dict(num_prototypes=120, num_patch_prototypes=120))
