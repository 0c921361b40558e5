"""Twice as many prototypes as of the size scenes."""

_base_ = ["../../../configs/ssprl/ssprl-small-views-sampled_resnet18_{{$SIZE:photos-gpu}}.py"]

model = dict(head=dict(num_prototypes=60, num_patch_prototypes=60))
