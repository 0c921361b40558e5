"""Half as many prototypes."""

_base_ = ["../../../configs/ssprl/ssprl-small-views-sampled_resnet18_{{$SIZE:photos-gpu}}.py"]

model = dict(head=dict(num_prototypes=30, num_patch_prototypes=30))
