"""The released code's loss: g_s reads raw scores, and each pyramid predicts both image codes."""

_base_ = ["../../../configs/ssprl/ssprl-small-views-sampled_resnet18_{{$SIZE:photos-gpu}}.py"]

model = dict(head=dict(variant="released"))
